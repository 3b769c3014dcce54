// Shows a menu that is open. Loaded with the first one: the button is in ui/Menu.tsx. It does not lock the page's scrolling: that would insert a
// style element, which the content security policy forbids.
import * as Radix from '@radix-ui/react-dropdown-menu';
import { Check, type LucideIcon } from 'lucide-react';
import { type FocusEvent, type ReactNode, type Ref, type RefObject, useLayoutEffect } from 'react';
import { DIRECTION } from './language';

interface ShownProps {
  id: string;
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
  button: RefObject<HTMLButtonElement | null>;
  buttonId: string;
  /** A key has opened it, and its first item has not got the focus yet. */
  isByKey: RefObject<boolean>;
  align: 'start' | 'end';
  side: 'top' | 'bottom';
  onCloseAutoFocus?: ((event: Event) => void) | undefined;
  children: ReactNode;
}

export function Shown({ id, isOpen, onOpenChange, button, buttonId, isByKey, children, ...rest }: ShownProps) {
  // What opens it with a key expects its first item. Radix sees to that itself, but not for the key before it was loaded.
  const onFocus = ({ target, currentTarget }: FocusEvent) => {
    if (!isByKey.current || target !== currentTarget) return;
    isByKey.current = false;
    currentTarget.querySelector<HTMLElement>('[role^="menuitem"]:not([data-disabled])')?.focus();
  };
  return (
    <Radix.Root modal={false} dir={DIRECTION} open={isOpen} onOpenChange={onOpenChange}>
      <Radix.Trigger asChild>
        <StandIn button={button} />
      </Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          id={id}
          aria-labelledby={buttonId}
          className="menu"
          sideOffset={4}
          collisionPadding={8}
          loop
          onFocus={onFocus}
          {...rest}
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** Where Radix expects the button: tells it which one that is. */
function StandIn({ button, ref }: { button: RefObject<HTMLButtonElement | null>; ref?: Ref<HTMLButtonElement> }) {
  useLayoutEffect(() => {
    if (typeof ref === 'function') ref(button.current);
    else if (ref) ref.current = button.current;
  }, [button, ref]);
  return null;
}

export interface ItemProps {
  icon?: LucideIcon;
  isDangerous?: boolean;
  isDisabled?: boolean;
  onSelect: () => void;
  children: ReactNode;
}

export function Item({ icon: Icon, isDangerous = false, isDisabled = false, onSelect, children }: ItemProps) {
  return (
    <Radix.Item className={isDangerous ? 'menu-item bad' : 'menu-item'} disabled={isDisabled} onSelect={onSelect}>
      {Icon ? <Icon className="icon" /> : null}
      {children}
    </Radix.Item>
  );
}

export interface ChoiceProps<Value extends string> {
  label: string;
  value: Value;
  /** Each with its name, and what is shown beside it. */
  options: readonly (readonly [Value, string, string?])[];
  onChange: (value: Value) => void;
}

export function Choice<Value extends string>({ label, value, options, onChange }: ChoiceProps<Value>) {
  return (
    <Radix.RadioGroup value={value} onValueChange={(chosen) => onChange(chosen as Value)} aria-label={label}>
      <Radix.Label className="menu-label">{label}</Radix.Label>
      {options.map(([name, shown, detail]) => (
        <Radix.RadioItem key={name} value={name} className="menu-item">
          <span className="name">{shown}</span>
          {detail === undefined ? null : <span className="quiet">{detail}</span>}
          <Radix.ItemIndicator className="check">
            <Check className="icon" />
          </Radix.ItemIndicator>
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  );
}

export function Line() {
  return <Radix.Separator className="menu-line" />;
}

// A menu that a button opens, with arrow keys and typing ahead. It does not lock the page's scrolling: that would insert a style element, which
// the content security policy forbids.
import * as Radix from '@radix-ui/react-dropdown-menu';
import { Check, type LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { DIRECTION } from './language';

interface MenuProps {
  /** A button. */
  trigger: ReactNode;
  align?: 'start' | 'end';
  side?: 'top' | 'bottom';
  /** Where the focus goes when it closes: to the button, unless this prevents it. */
  onCloseAutoFocus?: (event: Event) => void;
  children: ReactNode;
}

export function Menu({ trigger, align = 'end', side = 'bottom', onCloseAutoFocus, children }: MenuProps) {
  return (
    <Radix.Root modal={false} dir={DIRECTION}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          className="menu"
          align={align}
          side={side}
          sideOffset={4}
          collisionPadding={8}
          loop
          onCloseAutoFocus={onCloseAutoFocus}
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface ItemProps {
  icon?: LucideIcon;
  isDangerous?: boolean;
  isDisabled?: boolean;
  onSelect: () => void;
  children: ReactNode;
}

export function MenuItem({ icon: Icon, isDangerous = false, isDisabled = false, onSelect, children }: ItemProps) {
  return (
    <Radix.Item className={isDangerous ? 'menu-item bad' : 'menu-item'} disabled={isDisabled} onSelect={onSelect}>
      {Icon ? <Icon className="icon" /> : null}
      {children}
    </Radix.Item>
  );
}

/** Exactly one of these is chosen. */
export function MenuChoice<Value extends string>(props: {
  label: string;
  value: Value;
  options: readonly (readonly [Value, string])[];
  onChange: (value: Value) => void;
}) {
  const { label, value, options, onChange } = props;
  return (
    <Radix.RadioGroup value={value} onValueChange={(chosen) => onChange(chosen as Value)} aria-label={label}>
      <Radix.Label className="menu-label">{label}</Radix.Label>
      {options.map(([name, shown]) => (
        <Radix.RadioItem key={name} value={name} className="menu-item">
          {shown}
          <Radix.ItemIndicator className="check">
            <Check className="icon" />
          </Radix.ItemIndicator>
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  );
}

export function MenuLine() {
  return <Radix.Separator className="menu-line" />;
}

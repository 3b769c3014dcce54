// A menu that a button opens, with arrow keys and typing ahead. What shows it (ui/menuParts.tsx) is loaded as soon as the pointer or the focus is at
// such a button: the list of chats has a button in each row, and the page is there before any of them is used.
import {
  type ComponentProps,
  cloneElement,
  type KeyboardEvent,
  type PointerEvent,
  type ReactElement,
  type ReactNode,
  useId,
  useRef,
  useState,
} from 'react';
import { NotLoaded } from './lazyView';
import type { ChoiceProps, ItemProps } from './menuParts';
import { toastError } from './toasts';

type Parts = typeof import('./menuParts');

/** What shows menus, once it is loaded. */
let parts: Parts | undefined;
let loading: Promise<Parts> | undefined;

/** Loads once. After a failure, the next request loads again. */
async function load(): Promise<Parts> {
  loading ??= import('./menuParts');
  try {
    parts = await loading;
    return parts;
  } catch (cause) {
    loading = undefined;
    throw new NotLoaded(cause);
  }
}

function preload(): void {
  // Where that fails, the click says so.
  if (!parts) load().catch(() => {});
}

interface MenuProps {
  /** A button that handles neither the pointer nor keys nor clicks itself. */
  trigger: ReactElement<ComponentProps<'button'>>;
  align?: 'start' | 'end';
  side?: 'top' | 'bottom';
  /** Where the focus goes when it closes: to the button, unless this prevents it. */
  onCloseAutoFocus?: (event: Event) => void;
  children: ReactNode;
}

export function Menu({ trigger, align = 'end', side = 'bottom', onCloseAutoFocus, children }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  /** What shows it stays when it closes: it gives the focus back. */
  const [wasOpen, setWasOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const isByKey = useRef(false);
  /** The press of the mouse or of a key that has begun was acted on: its click does nothing more. */
  const isDone = useRef(false);
  /** Whether it was open when a finger began to tap: the focus, which comes before the click, closes it. */
  const wasOpenAtTap = useRef<boolean | null>(null);
  const [buttonId, id] = [useId(), useId()];
  const change = async (opens: boolean, byKey = false) => {
    setOpen(opens);
    if (!opens) return;
    isByKey.current = byKey;
    try {
      if (!parts) await load();
      setWasOpen(true);
    } catch (error) {
      setOpen(false);
      toastError(error);
    }
  };
  const onPointerDown = (event: PointerEvent) => {
    // A finger may scroll from here on: it opens the menu when it taps, which is a click.
    isDone.current = event.pointerType === 'mouse';
    wasOpenAtTap.current = isDone.current ? null : isOpen;
    if (!isDone.current || event.button !== 0 || event.ctrlKey) return;
    // The focus is for the menu.
    if (!isOpen) event.preventDefault();
    void change(!isOpen);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!['Enter', ' ', 'ArrowDown'].includes(event.key)) return;
    event.preventDefault();
    isDone.current = event.key !== 'ArrowDown';
    void change(event.key === 'ArrowDown' || !isOpen, true);
  };
  const onClick = () => {
    if (!isDone.current) void change(!(wasOpenAtTap.current ?? isOpen));
    isDone.current = false;
    wasOpenAtTap.current = null;
  };
  return (
    <>
      {cloneElement(trigger, {
        ref: button,
        id: buttonId,
        'aria-haspopup': 'menu',
        'aria-expanded': isOpen,
        'aria-controls': isOpen && wasOpen ? id : undefined,
        'data-state': isOpen ? 'open' : 'closed',
        onPointerEnter: preload,
        onFocus: preload,
        onPointerDown,
        onKeyDown,
        onClick,
      } as ComponentProps<'button'>)}
      {wasOpen && parts ? (
        <parts.Shown
          id={id}
          isOpen={isOpen}
          onOpenChange={(opens) => void change(opens)}
          button={button}
          buttonId={buttonId}
          isByKey={isByKey}
          align={align}
          side={side}
          onCloseAutoFocus={onCloseAutoFocus}
        >
          {children}
        </parts.Shown>
      ) : null}
    </>
  );
}

// What follows is only rendered within an open menu.

export function MenuItem(props: ItemProps) {
  return parts ? <parts.Item {...props} /> : null;
}

/** Exactly one of these is chosen. */
export function MenuChoice<Value extends string>(props: ChoiceProps<Value>) {
  return parts ? <parts.Choice {...props} /> : null;
}

export function MenuLine() {
  return parts ? <parts.Line /> : null;
}

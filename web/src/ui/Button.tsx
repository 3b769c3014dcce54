// Buttons. A page has one primary button; icon buttons always have a name, which the tooltip shows.
import type { LucideIcon } from 'lucide-react';
import type { ComponentProps } from 'react';

interface IconButtonProps extends Omit<ComponentProps<'button'>, 'children' | 'aria-label'> {
  icon: LucideIcon;
  /** What it does: its name and its tooltip. */
  label: string;
  /** A longer name, for people who hear the button without what is around it. */
  name?: string | undefined;
  /** The shortcut, as the tooltip shows it. */
  keys?: string;
}

export function IconButton({
  icon: Icon,
  label,
  name,
  keys,
  className = '',
  type = 'button',
  ...rest
}: IconButtonProps) {
  return (
    <button
      {...rest}
      type={type}
      className={`icon-button ${className}`}
      aria-label={name ?? label}
      data-tip={keys ? `${label} (${keys})` : label}
    >
      <Icon className="icon" />
    </button>
  );
}

// What a page shows where there is nothing yet: what belongs here, and how it gets here.
import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';

export function Empty({ icon: Icon, title, children }: { icon: LucideIcon; title: string; children?: ReactNode }) {
  return (
    <div className="empty-state">
      <Icon className="icon" />
      <b>{title}</b>
      {children ? <p>{children}</p> : null}
    </div>
  );
}

// A table that may be wider than its page: it scrolls by itself.
import type { ReactNode } from 'react';

export function Wide({ children }: { children: ReactNode }) {
  return <div className="scrolls">{children}</div>;
}

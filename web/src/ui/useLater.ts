// Waits for a pause in typing.
import { useEffect, useState } from 'react';

/** A text, once it has stayed the same for a while; an empty one at once. */
export function useLater(value: string, ms: number): string {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), value === '' ? 0 : ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return later;
}

// Files on their way to the server, of one place where somebody writes.
import { useCallback, useEffect, useRef, useState } from 'react';
import { type StoredFile, upload, type Upload } from './uploads';

/** `onStored` hears of each that has arrived. What is on its way when somebody goes elsewhere is given up. */
export function useUploads(place: string, onStored: (file: StoredFile) => void) {
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  const requests = useRef(new Map<number, AbortController>());
  const next = useRef(0);
  const stored = useRef(onStored);
  stored.current = onStored;
  useEffect(() => {
    const under = requests.current;
    return () => {
      for (const request of under.values()) request.abort();
      under.clear();
      setUploads([]);
    };
  }, [place]);
  const change = useCallback((key: number, change: Partial<Upload>) => setUploads((all) => all.map((one) => (one.key === key ? { ...one, ...change } : one))), []);
  const drop = useCallback((key: number) => setUploads((all) => all.filter((one) => one.key !== key)), []);
  const begin = useCallback(
    async ({ key, file }: Upload) => {
      const request = new AbortController();
      requests.current.set(key, request);
      try {
        const arrived = await upload(file, (progress) => change(key, { progress }), request.signal);
        if (request.signal.aborted) return;
        drop(key);
        stored.current(arrived);
      } catch (error) {
        if (!request.signal.aborted) change(key, { error: error instanceof Error ? error.message : 'something went wrong' });
      } finally {
        requests.current.delete(key);
      }
    },
    [change, drop],
  );
  const add = useCallback(
    (file: File) => {
      const one: Upload = { key: (next.current += 1), file, progress: 0 };
      setUploads((all) => [...all, one]);
      void begin(one);
    },
    [begin],
  );
  const retry = useCallback(
    (one: Upload) => {
      const { error: _, ...rest } = one;
      const again = { ...rest, progress: 0 };
      setUploads((all) => all.map((other) => (other.key === one.key ? again : other)));
      void begin(again);
    },
    [begin],
  );
  const leaveOut = useCallback(
    ({ key }: Upload) => {
      requests.current.get(key)?.abort();
      drop(key);
    },
    [drop],
  );
  return { uploads, add, retry, leaveOut };
}

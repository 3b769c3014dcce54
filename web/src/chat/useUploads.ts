// Tracks the uploads in progress of one message field.
import { useCallback, useEffect, useRef, useState } from 'react';
import { t } from '../ui/language';
import { type StoredFile, type Upload, upload } from './uploads';

/** Puts a file that has arrived among those that are there. */
type Add = (there: readonly StoredFile[]) => readonly StoredFile[];

/** `onStored` is called with each file that has arrived, which it adds in the order in which files were picked. Leaving the place cancels uploads. */
export function useUploads(place: string, onStored: (add: Add) => void) {
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  const requests = useRef(new Map<number, AbortController>());
  const next = useRef(0);
  /** When each file was picked, by the id that the server gave it. */
  const picked = useRef(new Map<string, number>());
  const stored = useRef(onStored);
  stored.current = onStored;
  // biome-ignore lint/correctness/useExhaustiveDependencies: when `place` changes, the cleanup cancels the uploads of the place before.
  useEffect(() => {
    const under = requests.current;
    return () => {
      for (const request of under.values()) request.abort();
      under.clear();
      setUploads([]);
    };
  }, [place]);
  const change = useCallback(
    (key: number, change: Partial<Upload>) =>
      setUploads((all) => all.map((one) => (one.key === key ? { ...one, ...change } : one))),
    [],
  );
  const drop = useCallback((key: number) => setUploads((all) => all.filter((one) => one.key !== key)), []);
  const begin = useCallback(
    async ({ key, file }: Upload) => {
      const request = new AbortController();
      requests.current.set(key, request);
      try {
        const arrived = await upload(file, (progress) => change(key, { progress }), request.signal);
        if (request.signal.aborted) return;
        drop(key);
        picked.current.set(arrived.fileId, key);
        stored.current((there) => {
          const later = there.findIndex(({ fileId }) => (picked.current.get(fileId) ?? 0) > key);
          return later < 0 ? [...there, arrived] : there.toSpliced(later, 0, arrived);
        });
      } catch (error) {
        if (!request.signal.aborted)
          change(key, { error: error instanceof Error ? error.message : t('something went wrong') });
      } finally {
        requests.current.delete(key);
      }
    },
    [change, drop],
  );
  const add = useCallback(
    (file: File) => {
      next.current += 1;
      const one: Upload = { key: next.current, file, progress: 0 };
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

// A record in full, asked for when it is looked at.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api } from '../api/http';
import { t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { LIVE_MS } from './records';

interface FullProps<Item> {
  queryKey: string[];
  path: string;
  /** It is read again while this holds. */
  isOpen?: (full: Item) => boolean;
  children: (full: Item) => ReactNode;
}

export function Full<Item>({ queryKey, path, isOpen, children }: FullProps<Item>) {
  const full = useQuery({
    queryKey,
    queryFn: () => api<Item>(path),
    refetchInterval: ({ state }) => (state.data !== undefined && isOpen?.(state.data) ? LIVE_MS : false),
  });
  if (full.isPending) return <Waiting what={t('the details')} />;
  if (full.isError) return <ErrorNote error={full.error} />;
  return children(full.data);
}

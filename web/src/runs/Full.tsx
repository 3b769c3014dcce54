// A record in full, asked for when it is looked at.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api } from '../api/http';
import { ErrorNote, Waiting } from '../ui/parts';

export function Full(props: {
  queryKey: string[];
  path: string;
  children: (full: Record<string, unknown>) => ReactNode;
}) {
  const { queryKey, path, children } = props;
  const full = useQuery({ queryKey, queryFn: () => api<Record<string, unknown>>(path) });
  if (full.isPending) return <Waiting what="the details" />;
  if (full.isError) return <ErrorNote error={full.error} />;
  return children(full.data);
}

// Reads the stored messages and tool calls of a run once, for all components that show them.
import type { Schemas } from '../api/http';
import { usePages } from '../api/pages';

/** How often a run that is under way is looked at again [ms]. */
export const LIVE_MS = 1_500;
const PAGE = 100;

export type RunMessage = Schemas['RunMessagePage']['items'][number];
export type ToolCall = Schemas['ToolCallPage']['items'][number];

export function useMessages(path: string, id: string, isLive: boolean) {
  return usePages<RunMessage>(['run', id, 'messages'], `${path}/messages`, {
    limit: PAGE,
    refetchMs: isLive && LIVE_MS,
  });
}

export function useCalls(path: string, id: string, isLive: boolean) {
  return usePages<ToolCall>(['run', id, 'calls'], `${path}/tool-calls`, { limit: PAGE, refetchMs: isLive && LIVE_MS });
}

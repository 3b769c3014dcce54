// The page's single client of the event logs: `@rejoin/client` with the browser's session.
import { createClient } from '@rejoin/client';
import { useConversation } from '@rejoin/client/react';

export type {
  Item,
  Message,
  Notice,
  Part,
  Plan,
  ProjectFocus,
  Question,
  ToolCall,
  TranscriptView,
  Turn,
} from '@rejoin/client';

export const client = createClient();

/** What a conversation shows, live; components that show the same one share a connection. */
export function useTranscript(conversationId: string) {
  const { transcript, status, error, complete } = useConversation(client, conversationId);
  return { view: transcript, status, error, complete };
}

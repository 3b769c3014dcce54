// A chat on Rejoin's AI SDK endpoint, shown with the primitives of assistant-ui.
import { type UIMessage, useChat } from '@ai-sdk/react';
import {
  AssistantRuntimeProvider,
  AuiIf,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
} from '@assistant-ui/react';
import { useAISDKRuntime } from '@assistant-ui/react-ai-sdk';
import { DefaultChatTransport } from 'ai';

type Message = UIMessage<{ runId?: string } | undefined>;

export function App({ id, stored }: { id: string; stored: Message[] }) {
  const chat = useChat<Message>({
    id,
    messages: stored,
    resume: true,
    transport: new DefaultChatTransport({
      api: '/api/ai/chat',
      prepareReconnectToStreamRequest: () => ({ api: `/api/ai/chat/${id}/stream?after=${stored.at(-1)?.id ?? ''}` }),
    }),
  });
  // useChat's own stop() stops reading. This one ends the run, and with it the stream.
  const runId = chat.messages.at(-1)?.metadata?.runId;
  const stop = async () => {
    if (runId) await fetch(`/api/runs/${runId}/cancel`, { method: 'POST' });
  };
  const runtime = useAISDKRuntime({ ...chat, stop });

  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <a href="./">New chat</a>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages>
          {({ message }) => (
            <MessagePrimitive.Root className={message.role}>
              <Parts />
            </MessagePrimitive.Root>
          )}
        </ThreadPrimitive.Messages>
        {chat.error && (
          <p role="alert">
            {chat.error.message}{' '}
            <button type="button" onClick={() => chat.resumeStream()}>
              Continue
            </button>
          </p>
        )}
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" autoFocus />
          <AuiIf condition={({ thread }) => thread.isRunning}>
            <ComposerPrimitive.Cancel disabled={!runId}>Stop</ComposerPrimitive.Cancel>
          </AuiIf>
          <AuiIf condition={({ thread }) => !thread.isRunning}>
            <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          </AuiIf>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

/** The text and the tool calls of a message. */
function Parts() {
  return (
    <MessagePrimitive.Parts>
      {({ part }) => {
        if (part.type === 'tool-call')
          return (
            <details>
              <summary>{part.toolName}</summary>
              <pre>{JSON.stringify(part.args, null, 2)}</pre>
              <pre>{JSON.stringify(part.result, null, 2)}</pre>
            </details>
          );
        // A lost worker's text is written again in another part.
        if (part.type === 'text' && !part.providerMetadata?.rejoin?.abandoned) return <p>{part.text}</p>;
        return null;
      }}
    </MessagePrimitive.Parts>
  );
}

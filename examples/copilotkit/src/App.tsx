// A chat on Rejoin's AG-UI endpoint, made with CopilotKit's hooks, without its components.
import { useAgent, useCopilotKit, useRenderTool, useRenderToolCall } from '@copilotkit/react-core/v2/headless';
import { type FormEvent, useEffect, useState } from 'react';

export function App() {
  const { agent } = useAgent();
  const { copilotkit } = useCopilotKit();
  const renderToolCall = useRenderToolCall();
  const [text, setText] = useState('');
  const [error, setError] = useState('');

  useEffect(
    () => copilotkit.subscribe({ onError: (event) => setError(event.error.message) }).unsubscribe,
    [copilotkit],
  );
  // After a reload: the stored messages, and the rest of a run that is active.
  useEffect(() => {
    if (location.hash) void copilotkit.connectAgent({ agent });
  }, [copilotkit, agent]);
  useRenderTool({
    name: '*',
    render: ({ name, parameters, result }) => (
      <details>
        <summary>{name}</summary>
        <pre>{JSON.stringify(parameters, null, 2)}</pre>
        <pre>{result}</pre>
      </details>
    ),
  });

  function ask(event: FormEvent) {
    event.preventDefault();
    setText('');
    setError('');
    location.hash = agent.threadId;
    agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: text });
    void copilotkit.runAgent({ agent });
  }

  const results = agent.messages.filter((message) => message.role === 'tool');
  return (
    <>
      <a href="./">New chat</a>
      {agent.messages.map((message) => {
        if (message.role === 'user')
          return (
            <p key={message.id} className="user">
              {message.content as string}
            </p>
          );
        if (message.role !== 'assistant') return null;
        return (
          <div key={message.id} className="assistant">
            {message.content && <p>{message.content}</p>}
            {message.toolCalls?.map((toolCall) => {
              const toolMessage = results.find((result) => result.toolCallId === toolCall.id);
              return renderToolCall({ toolCall, toolMessage });
            })}
          </div>
        );
      })}
      {error && <p role="alert">{error}</p>}
      <form onSubmit={ask}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {agent.isRunning ? (
          <button type="button" onClick={() => copilotkit.stopAgent({ agent })}>
            Stop
          </button>
        ) : (
          <button type="submit" disabled={!text.trim()}>
            Send
          </button>
        )}
      </form>
    </>
  );
}

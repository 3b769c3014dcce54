// A stored message of a run: a model's as Markdown with its calls, a tool's as its result, all others as text.
import { Markdown } from '../chat/Markdown';
import { Payload } from '../ui/parts';
import { readable, valueIn } from './messages';

export function StoredMessage({ sender, content }: { sender: string; content: unknown }) {
  const { text, calls, tool, isError, files } = readable(content);
  return (
    <div className="stored-message">
      {sender === 'tool_result' ? (
        <>
          <h4>
            {isError ? 'Error' : 'Result'} of <code>{tool ?? 'the tool'}</code>
          </h4>
          {isError ? <p className="note bad">{text}</p> : <Payload value={valueIn(text)} />}
        </>
      ) : text === '' ? null : sender === 'assistant' ? (
        <Markdown text={text} isLive={false} />
      ) : (
        <p className="words">{text}</p>
      )}
      {calls.map(({ name, input }, nth) => (
        <div key={nth}>
          <h4>
            Calls <code>{name}</code>
          </h4>
          <Payload value={input} />
        </div>
      ))}
      {files.length > 0 ? <p className="quiet">Files: {files.join(', ')}</p> : null}
      {text === '' && calls.length === 0 ? <p className="quiet">No text.</p> : null}
    </div>
  );
}

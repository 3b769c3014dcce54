// A stored message of a run: a model's as Markdown with its calls, a tool's as its result, all others as text.
import { Markdown } from '../chat/Markdown';
import { rich, t } from '../ui/language';
import { Payload } from '../ui/parts';
import { readable, valueIn } from './messages';

export function StoredMessage({ sender, content }: { sender: string; content: unknown }) {
  const { text, calls, tool, isError, files } = readable(content);
  return (
    <div className="stored-message">
      {sender === 'tool_result' ? (
        <>
          <h4>
            {rich(isError ? 'Error of {tool}' : 'Result of {tool}', { tool: <code>{tool ?? t('the tool')}</code> })}
          </h4>
          {isError ? (
            <p dir="auto" className="note bad">
              {text}
            </p>
          ) : (
            <Payload value={valueIn(text)} />
          )}
        </>
      ) : text === '' ? null : sender === 'assistant' ? (
        <Markdown text={text} isLive={false} />
      ) : (
        <p dir="auto" className="words">
          {text}
        </p>
      )}
      {calls.map(({ name, input }, nth) => (
        <div key={nth}>
          <h4>{rich('Calls {tool}', { tool: <code>{name}</code> })}</h4>
          <Payload value={input} />
        </div>
      ))}
      {files.length > 0 ? <p className="quiet">{t('Files: {names}', { names: files.join(t(', ')) })}</p> : null}
      {text === '' && calls.length === 0 ? <p className="quiet">{t('No text.')}</p> : null}
    </div>
  );
}

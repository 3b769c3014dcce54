// The messages and the tool calls of a run, each loaded in full when it is opened.
import type { Schemas } from '../api/http';
import { More } from '../api/pages';
import { number, t } from '../ui/language';
import { duration, ErrorNote, Folded, State } from '../ui/parts';
import { Full } from './Full';
import { inShort, roleName } from './messages';
import { useCalls, useMessages } from './records';
import { StoredCall } from './StoredCall';
import { StoredMessage } from './StoredMessage';

export function Messages({ path, id, isLive }: { path: string; id: string; isLive: boolean }) {
  const messages = useMessages(path, id, isLive);
  return (
    <section>
      <h2>{t('Messages')}</h2>
      {messages.reading.isError ? <ErrorNote error={messages.reading.error} /> : null}
      <ol className="records">
        {messages.items.map((message) => (
          <li key={message.id}>
            <Folded
              label={
                <>
                  <span className="step">{number(message.stepNumber)}</span>{' '}
                  <b className="role">{roleName(message.role)}</b>{' '}
                  <span dir="auto" className="quiet">
                    {inShort(message.content).slice(0, 160)}
                  </span>
                </>
              }
            >
              {() => (
                <Full<Schemas['RunMessageDetail']>
                  queryKey={['message', message.id]}
                  path={`${path}/messages/${message.id}`}
                >
                  {({ content }) => <StoredMessage sender={message.role} content={content} />}
                </Full>
              )}
            </Folded>
          </li>
        ))}
      </ol>
      <More of={messages} />
    </section>
  );
}

export function Calls({ path, id, isLive }: { path: string; id: string; isLive: boolean }) {
  const calls = useCalls(path, id, isLive);
  if (calls.reading.isSuccess && calls.items.length === 0) return null;
  return (
    <section>
      <h2>{t('Tool calls')}</h2>
      {calls.reading.isError ? <ErrorNote error={calls.reading.error} /> : null}
      <ol className="records">
        {calls.items.map((call) => (
          <li key={call.id}>
            <Folded
              label={
                <>
                  <span className="step">{number(call.stepNumber)}</span> <b>{call.toolName}</b>{' '}
                  <State state={call.status} /> <span className="quiet">{duration(call.durationMs)}</span>
                </>
              }
            >
              {() => <StoredCall path={path} id={call.id} />}
            </Folded>
          </li>
        ))}
      </ol>
      <More of={calls} />
    </section>
  );
}

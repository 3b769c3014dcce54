// Shows messages that the server has not stored yet, at their future place in the conversation.
import { t } from '../ui/language';
import { CopyButton } from '../ui/parts';
import { Attachments } from './Attachments';
import { splitFiles } from './files';
import { outbox, type Unsent } from './outbox';

export function UnsentMessages({ unsent }: { unsent: readonly Unsent[] }) {
  const stuckAt = unsent.findIndex(isStuck);
  return unsent.map((one, nth) => (
    <li key={one.key}>
      <UnsentMessage unsent={one} isBehind={stuckAt >= 0 && nth > stuckAt} />
    </li>
  ));
}

function isStuck({ state }: Unsent): boolean {
  return state === 'unreachable' || state === 'refused';
}

/** `isBehind`: one before it could not be sent, and is sent first. */
function UnsentMessage({ unsent, isBehind }: { unsent: Unsent; isBehind: boolean }) {
  const { key, message, attachments, state, reason } = unsent;
  const { words, files } = splitFiles(message);
  return (
    <article className="mine unsent" aria-label={t('You')}>
      {words === '' ? null : <p dir="auto">{words}</p>}
      {files.map((file, nth) => (
        <p key={nth}>
          <code>{file.name}</code>
        </p>
      ))}
      <Attachments files={attachments} />
      <div className="sending" role="status">
        {isStuck(unsent) ? (
          <>
            <b>{t('Not sent.')}</b> {reason}
            {state === 'unreachable' ? ` ${t('It will be sent as soon as possible.')}` : ''}
          </>
        ) : (
          <span className="quiet">{isBehind ? t('Waiting for the previous message.') : t('Sending…')}</span>
        )}
      </div>
      {isStuck(unsent) || isBehind ? (
        <div className="controls">
          {isStuck(unsent) ? (
            <button type="button" className="small" onClick={() => outbox.retry(key)}>
              {t('Retry')}
            </button>
          ) : null}
          <button type="button" className="small" onClick={() => outbox.remove(key)}>
            {t('Delete')}
          </button>
          <CopyButton text={() => message} of={t('your message')} />
        </div>
      ) : null}
    </article>
  );
}

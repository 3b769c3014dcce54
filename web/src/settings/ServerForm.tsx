// A form for an MCP server: its transport, credentials and trust settings.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: `${NAME}` is how a server's settings name a secret.
import type { FormEvent } from 'react';
import { useState } from 'react';
import type { Schemas } from '../api/http';
import { rich, t } from '../ui/language';

type Server = Schemas['ServerBody'];
export type ServerRequest = Schemas['ServerRequest'];

interface Props {
  /** None: a new one. */
  server?: Server;
  isBusy: boolean;
  onSubmit: (request: ServerRequest) => void;
}

/** The default pattern: all tools of the server. */
const EVERY_TOOL = '*';

/** The change of the server's OAuth settings; none: they stay. */
function oauthOf(server: Server | undefined, isPerUser: boolean): Pick<ServerRequest, 'oauth'> {
  if (isPerUser === (server?.oauth?.perUser ?? false)) return {};
  return { oauth: isPerUser ? { perUser: true } : null };
}

/** `Name: value`, a line each. */
function pairs(text: string): Record<string, string> {
  const lines = text.split('\n').map((line) => /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/.exec(line));
  return Object.fromEntries(lines.flatMap((found) => (found ? [[found[1] ?? '', found[2] ?? '']] : [])));
}

function lines(given: Record<string, unknown> | undefined): string {
  return Object.entries(given ?? {})
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join('\n');
}

export function ServerForm({ server, isBusy, onSubmit }: Props) {
  const [transport, setTransport] = useState(server?.transport ?? 'http');
  /** A client's token is set on the command line: it is not replaced here. */
  const hasClientToken = Boolean(server?.oauth) && !server?.oauth?.perUser;
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const timeout = text('timeoutS');
    onSubmit({
      ...(server ? {} : { name: text('name'), transport }),
      ...(transport === 'http'
        ? {
            url: text('url'),
            headers: pairs(text('headers')),
            ...(hasClientToken ? {} : oauthOf(server, form.get('perUser') !== null)),
          }
        : { command: text('command'), env: pairs(text('env')) }),
      tools: (text('tools') || EVERY_TOOL).split(/[\s,]+/),
      approval: text('approval'),
      trustHints: form.get('trustHints') !== null,
      ...(timeout === '' ? {} : { timeoutS: Number(timeout) }),
    });
  };
  return (
    <form className="editor" onSubmit={submit}>
      {server ? null : (
        <div className="fields">
          <label>
            {t('Name')}{' '}
            <input
              name="name"
              required
              pattern="[a-z][a-z0-9\-]*"
              title={t('Lowercase letters, digits and hyphens, starting with a letter')}
            />
          </label>
          <label>
            {t('Transport')}{' '}
            <select value={transport} onChange={(event) => setTransport(event.target.value)}>
              <option value="http">{t('HTTP')}</option>
              <option value="stdio">{t('Process on the worker (stdio)')}</option>
            </select>
          </label>
        </div>
      )}
      {transport === 'http' ? (
        <>
          <label>
            {t('URL')}{' '}
            <input name="url" type="url" required placeholder="https://…/mcp" defaultValue={server?.url ?? ''} />
          </label>
          <label>
            {t('Headers')}{' '}
            <textarea
              name="headers"
              rows={2}
              spellCheck={false}
              placeholder={'Authorization: Bearer ${TOKEN}'}
              defaultValue={lines(server?.headers)}
            />
          </label>
          {hasClientToken ? null : (
            <label>
              <input name="perUser" type="checkbox" defaultChecked={server?.oauth?.perUser ?? false} />{' '}
              {t('Each user connects an account at the server (OAuth)')}
            </label>
          )}
        </>
      ) : (
        <>
          <label>
            {t('Command')}{' '}
            <input
              name="command"
              required
              placeholder={t("A command from the operator's configuration")}
              defaultValue={server?.command ?? ''}
            />
          </label>
          <label>
            {t('Environment variables')}{' '}
            <textarea
              name="env"
              rows={2}
              spellCheck={false}
              placeholder={'API_KEY: ${TOKEN}'}
              defaultValue={lines(server?.env)}
            />
          </label>
        </>
      )}
      <p className="quiet">
        {rich('{reference} refers to a project secret. Run {command} to store one.', {
          reference: <code>{'${NAME}'}</code>,
          command: <code>rejoin secrets set NAME</code>,
        })}
      </p>
      <div className="fields">
        <label>
          {t('Tools')}{' '}
          <input name="tools" placeholder={t('Names or globs')} defaultValue={server?.tools.join(' ') ?? EVERY_TOOL} />
        </label>
        <label>
          {t('Approval')}{' '}
          <select name="approval" defaultValue={server?.approval ?? 'each'}>
            <option value="each">{t('Each tool')}</option>
            <option value="first">{t('Tools from the first listing')}</option>
          </select>
        </label>
        <label>
          {t('Timeout (seconds)')}{' '}
          <input name="timeoutS" type="number" min={1} placeholder="60" defaultValue={server?.timeoutS ?? ''} />
        </label>
        <label>
          <input name="trustHints" type="checkbox" defaultChecked={server?.trustHints ?? false} />{' '}
          {t("Trust the server's hints about its tools")}
        </label>
      </div>
      <div className="controls">
        <button type="submit" className="primary" disabled={isBusy}>
          {server ? t('Save') : t('Add')}
        </button>
      </div>
    </form>
  );
}

// The definition of an MCP server's tool: its description, its hints and its parameters, as models get them.
import { t } from '../ui/language';
import { Folded, Payload } from '../ui/parts';
import { Wide } from '../ui/Wide';
import type { Annotations } from './agents/tools';
import { Hints } from './Hints';

export interface Definition {
  title?: string;
  description?: string;
  annotations?: Annotations | null;
  inputSchema?: { properties?: Record<string, Parameter>; required?: string[] };
}

interface Parameter {
  type?: string | string[];
  description?: string;
}

export function ToolDefinition({ definition, isTrusted }: { definition: Definition; isTrusted: boolean }) {
  const { description, annotations, inputSchema } = definition;
  const parameters = Object.entries(inputSchema?.properties ?? {});
  const hasHints = annotations && Object.keys(annotations).length > 0;
  return (
    <>
      <p dir="auto" className="definition-text">
        {description || <span className="quiet">{t('No description.')}</span>}
      </p>
      {hasHints ? (
        <p>
          <Hints annotations={annotations} />{' '}
          <span className="quiet">
            {isTrusted ? t('Trusted hints of the server.') : t('Hints of the server, which are not trusted.')}
          </span>
        </p>
      ) : null}
      {parameters.length === 0 ? (
        <p className="quiet">{t('No parameters.')}</p>
      ) : (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Parameter')}</th>
                <th scope="col">{t('Type')}</th>
                <th scope="col">{t('Description')}</th>
              </tr>
            </thead>
            <tbody>
              {parameters.map(([name, parameter]) => (
                <tr key={name}>
                  <td>
                    <code>{name}</code>{' '}
                    {inputSchema?.required?.includes(name) ? <span className="badge">{t('required')}</span> : null}
                  </td>
                  <td>{[parameter.type ?? t('any')].flat().join(` ${t('or')} `)}</td>
                  <td dir="auto">{parameter.description ?? ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      <Folded label={t('Definition (JSON)')}>{() => <Payload value={definition} />}</Folded>
    </>
  );
}

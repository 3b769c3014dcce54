// The definition of an MCP server's tool: its description, its hints and its parameters, as models get them.
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
      <p className="definition-text">{description || <span className="quiet">No description.</span>}</p>
      {hasHints ? (
        <p>
          <Hints annotations={annotations} />{' '}
          <span className="quiet">
            {isTrusted ? 'Trusted hints of the server.' : 'Hints of the server, which are not trusted.'}
          </span>
        </p>
      ) : null}
      {parameters.length === 0 ? (
        <p className="quiet">No parameters.</p>
      ) : (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">Parameter</th>
                <th scope="col">Type</th>
                <th scope="col">Description</th>
              </tr>
            </thead>
            <tbody>
              {parameters.map(([name, parameter]) => (
                <tr key={name}>
                  <td>
                    <code>{name}</code>{' '}
                    {inputSchema?.required?.includes(name) ? <span className="badge">required</span> : null}
                  </td>
                  <td>{[parameter.type ?? 'any'].flat().join(' or ')}</td>
                  <td>{parameter.description ?? ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      <Folded label="Definition (JSON)">{() => <Payload value={definition} />}</Folded>
    </>
  );
}

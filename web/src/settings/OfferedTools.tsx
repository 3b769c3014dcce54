// The tools that an MCP server offers, with their approval.
import type { Schemas } from '../api/http';
import { rich, t } from '../ui/language';
import { Ago, Folded, State } from '../ui/parts';
import { Hints } from './Hints';
import { type Definition, ToolDefinition } from './ToolDefinition';

type Tool = Schemas['OfferedTool'];

/** The standings of tools that wait for a person. */
const UNAPPROVED = ['new', 'changed'];

export function isUnapproved({ standing }: Tool): boolean {
  return UNAPPROVED.includes(standing);
}

interface Props {
  tools: readonly Tool[];
  /** Whether the server's hints are trusted. */
  isTrusted: boolean;
  isBusy: boolean;
  onApprove: (tool: string) => void;
}

export function OfferedTools({ tools, isTrusted, isBusy, onApprove }: Props) {
  return (
    <ul className="hits">
      {tools.map((tool) => {
        const definition = tool.definition as Definition;
        return (
          <li key={tool.name}>
            <Folded
              label={
                <>
                  <code>{tool.name}</code> <State state={tool.standing} />{' '}
                  <Hints annotations={definition.annotations} />{' '}
                  <span dir="auto" className="quiet">
                    {definition.description ?? ''}
                  </span>
                </>
              }
            >
              {() => (
                <>
                  <Standing tool={tool} />
                  <ToolDefinition definition={definition} isTrusted={isTrusted} />
                  {isUnapproved(tool) ? (
                    <button type="button" disabled={isBusy} onClick={() => onApprove(tool.name)}>
                      {t('Approve {name}', { name: tool.name })}
                    </button>
                  ) : null}
                </>
              )}
            </Folded>
          </li>
        );
      })}
    </ul>
  );
}

function Standing({ tool: { standing, approvedAt, changedAt } }: { tool: Tool }) {
  switch (standing) {
    case 'changed':
      return (
        <p className="note">
          {rich('The definition changed {changed}. Another one was approved {approved}.', {
            changed: <Ago at={changedAt} />,
            approved: <Ago at={approvedAt} />,
          })}{' '}
          {t('No agent gets the tool until you approve the definition below.')}
        </p>
      );
    case 'new':
      return <p className="note">{t('No agent gets the tool until you approve the definition below.')}</p>;
    case 'gone':
      return <p className="note">{t('The server no longer offers this tool.')}</p>;
    default:
      return <p className="quiet">{rich('Approved {when}.', { when: <Ago at={approvedAt} /> })}</p>;
  }
}

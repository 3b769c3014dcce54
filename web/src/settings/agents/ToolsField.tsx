// The tools of an agent: names and globs, typed or chosen from what the project has.
import { Plus, X } from 'lucide-react';
import { type KeyboardEvent, useRef, useState } from 'react';
import { createPortal } from 'react-dom';
import { IconButton } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Empty } from '../../ui/Empty';
import { number, t } from '../../ui/language';
import { ErrorNote, State, Waiting } from '../../ui/parts';
import { Hints } from '../Hints';
import type { Fault } from './draft';
import { Field } from './Field';
import { isMatch, type Tool, useToolCatalogue } from './tools';

interface Props {
  tools: readonly string[];
  fault: Fault | null;
  onChange: (tools: readonly string[]) => void;
}

export function ToolsField({ tools, fault, onChange }: Props) {
  const [isOpen, open] = useState(false);
  const [typed, setTyped] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const add = () => {
    const named = typed.split(/[\s,]+/).filter((name) => name !== '' && !tools.includes(name));
    if (named.length > 0) onChange([...tools, ...named]);
    setTyped('');
    input.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    add();
  };
  const remove = (name: string) => {
    onChange(tools.filter((tool) => tool !== name));
    input.current?.focus();
  };
  return (
    <Field
      label={t('Tools')}
      field="tools"
      fault={fault}
      hint={t(
        'Names, or globs such as list_*. Tools that need a conversation, such as ask_user and spawn_agents, are added by name.',
      )}
    >
      {(control) => (
        <>
          {tools.length === 0 ? (
            <p className="quiet">{t('No tools.')}</p>
          ) : (
            <ul className="chips" aria-label={t('Chosen tools')}>
              {tools.map((name) => (
                <li key={name}>
                  <code>{name}</code>
                  <IconButton
                    icon={X}
                    label={t('Remove')}
                    name={t('Remove {name}', { name })}
                    className="small"
                    onClick={() => remove(name)}
                  />
                </li>
              ))}
            </ul>
          )}
          <div className="with-button">
            <input
              {...control}
              ref={input}
              value={typed}
              autoComplete="off"
              spellCheck={false}
              placeholder={t('A tool or a glob')}
              onChange={(event) => setTyped(event.target.value)}
              onKeyDown={onKeyDown}
            />
            <button type="button" disabled={typed.trim() === ''} onClick={add}>
              <Plus className="icon" /> {t('Add tool')}
            </button>
            <button type="button" onClick={() => open(true)}>
              {t('Choose tools…')}
            </button>
          </div>
          {isOpen
            ? // Outside of the form, which Enter would submit.
              createPortal(
                <Dialog title={t('Choose tools')} className="picker" onClose={() => open(false)}>
                  <Picker tools={tools} onChange={onChange} />
                  <div className="controls">
                    <button type="button" className="primary" onClick={() => open(false)}>
                      {t('Done')}
                    </button>
                  </div>
                </Dialog>,
                document.body,
              )
            : null}
        </>
      )}
    </Field>
  );
}

function Picker({ tools, onChange }: Omit<Props, 'fault'>) {
  const [wanted, setWanted] = useState('');
  const { groups, isPending, errors } = useToolCatalogue();
  const words = wanted.toLowerCase().split(/\s+/);
  const isWanted = (source: string, { name, description }: Tool) => {
    const text = `${source} ${name} ${description}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const found = groups
    .map(({ source, tools: all }) => ({ source, all: all.filter((tool) => isWanted(source, tool)) }))
    .filter(({ all }) => all.length > 0);
  const count = found.reduce((sum, { all }) => sum + all.length, 0);
  const toggle = (name: string, isChosen: boolean) =>
    onChange(isChosen ? [...tools, name] : tools.filter((tool) => tool !== name));
  return (
    <>
      <div className="search">
        <input
          type="search"
          autoFocus
          aria-label={t('Find tools')}
          placeholder={t('Find tools')}
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
      </div>
      {errors.map(([source, error], nth) => (
        <div key={nth}>
          <p>{t("{source} can't be listed. Their tools can still be added by name.", { source })}</p>
          <ErrorNote error={error} />
        </div>
      ))}
      {isPending ? <Waiting what={t('tools')} /> : null}
      <p className="quiet" role="status">
        {isPending ? '' : t('{count, plural, one {# tool} other {# tools}}', { count })}
      </p>
      {!isPending && count === 0 ? <Empty icon={Plus} title={t('No matching tools')} /> : null}
      {found.map(({ source, all }) => (
        <fieldset key={source} className="tool-group">
          <legend>
            {source} <span className="quiet">{number(all.length)}</span>
          </legend>
          {all.map((tool) => (
            <Choice key={tool.name} tool={tool} tools={tools} onToggle={(isChosen) => toggle(tool.name, isChosen)} />
          ))}
        </fieldset>
      ))}
    </>
  );
}

interface ChoiceProps {
  tool: Tool;
  tools: readonly string[];
  onToggle: (isChosen: boolean) => void;
}

function Choice({ tool, tools, onToggle }: ChoiceProps) {
  const isNamed = tools.includes(tool.name);
  const glob = isNamed ? undefined : tools.find((one) => isMatch(one, tool.name));
  return (
    <label className="tool-choice">
      <input
        type="checkbox"
        checked={isNamed || glob !== undefined}
        disabled={glob !== undefined}
        onChange={(event) => onToggle(event.target.checked)}
      />
      <span>
        <code>{tool.name}</code> <Hints annotations={tool.annotations} />{' '}
        {tool.standing ? <State state={tool.standing} /> : null}{' '}
        {glob === undefined ? null : <span className="badge">{t('by {glob}', { glob })}</span>}
        {tool.description === '' ? null : (
          <span dir="auto" className="quiet about-tool">
            {tool.description}
          </span>
        )}
      </span>
    </label>
  );
}

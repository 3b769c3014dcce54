// The model of an agent: typed, or chosen from the catalogue.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { createPortal } from 'react-dom';
import { api, type Schemas } from '../../api/http';
import { Dialog } from '../../ui/Dialog';
import { Failed } from '../../ui/Failed';
import { LOCALE, list, t } from '../../ui/language';
import { Waiting } from '../../ui/parts';
import { Wide } from '../../ui/Wide';
import type { Fault } from './draft';
import { Field } from './Field';

type Model = Schemas['ModelBody'];

/** Models of the catalogue that are shown at once. */
const SHOWN = 50;
const TOKENS = new Intl.NumberFormat(LOCALE, { notation: 'compact', maximumFractionDigits: 1 });
const USD = new Intl.NumberFormat(LOCALE, { style: 'currency', currency: 'USD', maximumFractionDigits: 3 });

function useModels() {
  return useQuery({
    queryKey: ['models'],
    queryFn: () => api<Schemas['ModelList']>('/api/models'),
    staleTime: Infinity,
  });
}

/** The model of this name in the catalogue. */
export function useModel(name: string): Model | undefined {
  return useModels().data?.items.find((model) => model.name === name || model.aliases.includes(name));
}

interface Props {
  value: string;
  fault: Fault | null;
  onChange: (name: string) => void;
}

export function ModelField({ value, fault, onChange }: Props) {
  const [isOpen, open] = useState(false);
  const model = useModel(value.trim());
  return (
    <Field label={t('Model')} field="model.name" fault={fault} hint={<About name={value.trim()} model={model} />}>
      {(control) => (
        <div className="with-button">
          <input
            {...control}
            value={value}
            placeholder={t('provider:model. Leave empty for the deployment default.')}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => onChange(event.target.value)}
          />
          <button type="button" onClick={() => open(true)}>
            {t('Choose model…')}
          </button>
          {isOpen
            ? // Outside of the form, which Enter would submit.
              createPortal(
                <Dialog title={t('Choose a model')} className="picker" onClose={() => open(false)}>
                  <Catalogue
                    chosen={model?.name}
                    onChoose={(name) => {
                      onChange(name);
                      open(false);
                    }}
                  />
                </Dialog>,
                document.body,
              )
            : null}
        </div>
      )}
    </Field>
  );
}

/** What a million tokens cost. */
function priceOf({ price }: Model): string {
  if (!price) return t('unknown price per million tokens');
  return t('{input} in, {output} out per million tokens', {
    input: USD.format(price.inputUsd),
    output: USD.format(price.outputUsd),
  });
}

function contextOf({ contextTokens }: Model): string {
  return contextTokens ? TOKENS.format(contextTokens) : '—';
}

function About({ name, model }: { name: string; model: Model | undefined }) {
  if (name === '' || name === 'default') return t('The default model of this deployment.');
  if (!model) return t('Not in the catalogue. It can be used, but its price and limits are unknown.');
  const facts = [
    model.provider,
    model.contextTokens ? t('context {count} tokens', { count: contextOf(model) }) : '',
    priceOf(model),
    endOf(model),
  ];
  return list(facts.filter((fact) => fact !== ''));
}

function endOf({ isRetired, successor, retiresOn }: Model): string {
  if (isRetired) return successor ? t('retired; replaced by {successor}', { successor }) : t('retired');
  return retiresOn ? t('will be retired on {date}', { date: retiresOn }) : '';
}

function Catalogue({ chosen, onChoose }: { chosen: string | undefined; onChoose: (name: string) => void }) {
  const [wanted, setWanted] = useState('');
  const [withKey, setWithKey] = useState(false);
  const models = useModels();
  if (models.isPending) return <Waiting what={t('models')} />;
  if (models.isError) return <Failed reading={models} />;
  const words = wanted.trim().toLowerCase();
  const found = models.data.items.filter(
    (model) =>
      (!withKey || model.hasKey) && [model.name, ...model.aliases].some((name) => name.toLowerCase().includes(words)),
  );
  return (
    <>
      <div className="search">
        <input
          type="search"
          autoFocus
          aria-label={t('Find models')}
          placeholder={t('Find models')}
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
        <label>
          <input type="checkbox" checked={withKey} onChange={(event) => setWithKey(event.target.checked)} />{' '}
          {t('Providers with an API key here')}
        </label>
      </div>
      <p className="quiet" role="status">
        {found.length === 0
          ? t('No matching models. Close this dialog to type any name.')
          : found.length > SHOWN
            ? t('The first {shown} of {count} models. Search to find others.', { shown: SHOWN, count: found.length })
            : t('{count, plural, one {# model} other {# models}}', { count: found.length })}
      </p>
      {found.length === 0 ? null : (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Model')}</th>
                <th scope="col">{t('Provider')}</th>
                <th scope="col" className="number">
                  {t('Context')}
                </th>
                <th scope="col" className="number">
                  {t('Input')}
                </th>
                <th scope="col" className="number">
                  {t('Output')}
                </th>
              </tr>
            </thead>
            <tbody>
              {found.slice(0, SHOWN).map((model) => (
                <tr key={model.name}>
                  <td>
                    <button
                      type="button"
                      className="plain small"
                      aria-pressed={model.name === chosen}
                      onClick={() => onChoose(model.name)}
                    >
                      {model.name}
                    </button>
                  </td>
                  <td>{model.provider}</td>
                  <td className="number">{contextOf(model)}</td>
                  <td className="number">{model.price ? USD.format(model.price.inputUsd) : '—'}</td>
                  <td className="number">{model.price ? USD.format(model.price.outputUsd) : '—'}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      <p className="quiet">{t('Prices in US dollars per million tokens, as of {date}.', { date: models.data.made })}</p>
    </>
  );
}

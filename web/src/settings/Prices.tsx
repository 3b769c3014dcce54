// Sets the model prices that run budgets use: the project's own, and those of the catalogue by search.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { number, t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { Wide } from '../ui/Wide';

/** Prices of the catalogue that are shown at once. */
const SHOWN = 20;
/** Prices have as many digits as they were set with. */
const dollars = (usd: number) => number(usd, { maximumFractionDigits: 20, useGrouping: false });

export function Prices() {
  const me = useMe();
  const [wanted, setWanted] = useState('');
  const queries = useQueryClient();
  const path = `/api/admin/projects/${me.projectId}/model-prices`;
  const prices = useQuery({ queryKey: ['prices'], queryFn: () => api<Schemas['Prices']>(path) });
  const onSuccess = () => queries.invalidateQueries({ queryKey: ['prices'] });
  const set = useMutation({
    mutationFn: (body: Schemas['PriceRequest']) => api(path, { method: 'PUT', body }),
    onSuccess,
  });
  const remove = useMutation({
    mutationFn: (model: string) => api(`${path}${query({ model })}`, { method: 'DELETE' }),
    onSuccess,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    set.mutate({
      model: String(form.get('model')).trim(),
      inputUsd: Number(form.get('input')),
      outputUsd: Number(form.get('output')),
    });
  };
  if (prices.isPending) return <Waiting what={t('prices')} />;
  if (prices.isError) return <ErrorNote error={prices.error} />;
  const listed = prices.data.items.filter((price) => price.builtIn && price.model.includes(wanted.trim()));
  const shown = [...prices.data.items.filter((price) => !price.builtIn), ...listed.slice(0, SHOWN)];
  return (
    <>
      <p className="quiet">{t('US dollars per million tokens. Prices set for the project override the catalogue.')}</p>
      <input
        value={wanted}
        aria-label={t('Find models')}
        placeholder={t('Find models')}
        onChange={(event) => setWanted(event.target.value)}
      />
      <Wide>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('Model')}</th>
              <th scope="col" className="number">
                {t('Input')}
              </th>
              <th scope="col" className="number">
                {t('Output')}
              </th>
              <th scope="col">{t('Source')}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((price) => (
              <tr key={`${price.builtIn}${price.model}`}>
                <td>
                  <code>{price.model}</code>
                </td>
                <td className="number">{dollars(price.inputUsd)}</td>
                <td className="number">{dollars(price.outputUsd)}</td>
                <td>
                  {price.builtIn ? (
                    <span className="quiet">{t('catalogue')}</span>
                  ) : (
                    <button
                      type="button"
                      className="small"
                      aria-label={t('Remove the price of {model}', { model: price.model })}
                      onClick={() => remove.mutate(price.model)}
                    >
                      {t('Remove')}
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {listed.length > SHOWN ? (
        <p className="quiet">
          {t('{count, plural, other {# more in the catalogue. Search by name to find them.}}', {
            count: listed.length - SHOWN,
          })}
        </p>
      ) : null}
      <form className="search" onSubmit={submit}>
        <input name="model" aria-label={t('Model')} placeholder={t('provider:model, or a glob')} required />
        <input
          name="input"
          aria-label={t('Input price (USD)')}
          type="number"
          min={0}
          step="any"
          placeholder={t('Input')}
          required
        />
        <input
          name="output"
          aria-label={t('Output price (USD)')}
          type="number"
          min={0}
          step="any"
          placeholder={t('Output')}
          required
        />
        <button type="submit">{t('Set')}</button>
      </form>
      {set.isError ? <ErrorNote error={set.error} /> : null}
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
    </>
  );
}

// Sets the model prices that run budgets use: the project's own, and those of the catalogue by search.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { ErrorNote, Waiting } from '../ui/parts';

/** Prices of the catalogue that are shown at once. */
const SHOWN = 20;

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
  if (prices.isPending) return <Waiting what="prices" />;
  if (prices.isError) return <ErrorNote error={prices.error} />;
  const listed = prices.data.items.filter((price) => price.builtIn && price.model.includes(wanted.trim()));
  const shown = [...prices.data.items.filter((price) => !price.builtIn), ...listed.slice(0, SHOWN)];
  return (
    <>
      <p className="quiet">US dollars per million tokens. Prices set for the project override the catalogue.</p>
      <input
        value={wanted}
        aria-label="Find models"
        placeholder="Find models"
        onChange={(event) => setWanted(event.target.value)}
      />
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col" className="number">
              Input
            </th>
            <th scope="col" className="number">
              Output
            </th>
            <th scope="col">Source</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((price) => (
            <tr key={`${price.builtIn}${price.model}`}>
              <td>
                <code>{price.model}</code>
              </td>
              <td className="number">{price.inputUsd}</td>
              <td className="number">{price.outputUsd}</td>
              <td>
                {price.builtIn ? (
                  <span className="quiet">catalogue</span>
                ) : (
                  <button
                    type="button"
                    className="small"
                    aria-label={`Remove the price of ${price.model}`}
                    onClick={() => remove.mutate(price.model)}
                  >
                    Remove
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {listed.length > SHOWN ? (
        <p className="quiet">{listed.length - SHOWN} more in the catalogue. Search by name to find them.</p>
      ) : null}
      <form className="search" onSubmit={submit}>
        <input name="model" aria-label="Model" placeholder="provider:model, or a glob" required />
        <input
          name="input"
          aria-label="Input price (USD)"
          type="number"
          min={0}
          step="any"
          placeholder="Input"
          required
        />
        <input
          name="output"
          aria-label="Output price (USD)"
          type="number"
          min={0}
          step="any"
          placeholder="Output"
          required
        />
        <button type="submit">Set</button>
      </form>
      {set.isError ? <ErrorNote error={set.error} /> : null}
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
    </>
  );
}

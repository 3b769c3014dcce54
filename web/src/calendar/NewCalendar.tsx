// Creates a calendar: its name and the default time zone of its events.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { api } from '../api/http';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import type { Calendar } from './CalendarView';
import { HERE } from './days';
import { ZoneField } from './ZoneField';

export function NewCalendar({ onMade }: { onMade: (id: string) => void }) {
  const queries = useQueryClient();
  const make = useMutation({
    mutationFn: (body: { name: string; timeZone: string }) => api<Calendar>('/api/calendars', { method: 'POST', body }),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['calendars'] });
      onMade(id);
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    make.mutate({ name: String(form.get('name')).trim(), timeZone: String(form.get('timeZone')).trim() });
  };
  return (
    <form className="editor" onSubmit={submit}>
      <label>
        {t('Name')} <input name="name" required maxLength={200} placeholder={t('Work')} />
      </label>
      <ZoneField name="timeZone" defaultValue={HERE} />
      {make.isError ? <ErrorNote error={make.error} /> : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={make.isPending}>
          {t('Create')}
        </button>
      </div>
    </form>
  );
}

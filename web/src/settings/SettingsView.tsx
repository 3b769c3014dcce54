// The settings, one section at a time. Some are for admins.
import { Link, useSearch } from '@tanstack/react-router';
import type { ComponentType } from 'react';
import { isAdmin, useMe } from '../api/me';
import { t } from '../ui/language';
import { useTitle } from '../ui/title';
import { Appearance } from './Appearance';
import { Keys } from './Keys';
import { Members } from './Members';
import { Prices } from './Prices';
import { Prompts } from './Prompts';
import { isForAdmins, type PartName, partOf } from './parts';
import { Sessions } from './Sessions';
import { SharedChats } from './SharedChats';
import { Usage } from './Usage';

const PARTS: Record<PartName, [string, ComponentType]> = {
  appearance: [t('Appearance'), Appearance],
  sessions: [t('Sessions'), Sessions],
  shares: [t('Shared chats'), SharedChats],
  prompts: [t('Prompts and routing'), Prompts],
  members: [t('Members'), Members],
  keys: [t('API keys'), Keys],
  usage: [t('Usage'), Usage],
  prices: [t('Model prices'), Prices],
};

export function SettingsView() {
  const me = useMe();
  const search = useSearch({ from: '/settings' });
  const part = partOf(search.part) ?? 'appearance';
  const [, Part] = PARTS[part];
  useTitle(t('{part}: Settings', { part: PARTS[part][0] }));
  return (
    <main id="main" className="page">
      <div className="title">
        <h1>{t('Settings')}</h1>
      </div>
      <nav className="parts" aria-label={t('Settings sections')}>
        {(Object.keys(PARTS) as PartName[])
          .filter((name) => isAdmin(me) || !isForAdmins(name))
          .map((name) => (
            <Link key={name} to="/settings" search={{ part: name }} aria-current={name === part ? 'page' : undefined}>
              {PARTS[name][0]}
            </Link>
          ))}
      </nav>
      {isAdmin(me) || !isForAdmins(part) ? (
        <Part />
      ) : (
        <p className="note quiet">{t('You need admin access to change settings.')}</p>
      )}
    </main>
  );
}

// What admins build with: agents, tools and data sources.
import { Link, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { isAdmin, useMe } from '../api/me';
import { t } from '../ui/language';
import { useTitle } from '../ui/title';
import { Agents } from './agents/Agents';
import { DataSources } from './DataSources';
import { McpServers } from './McpServers';
import { Programs } from './Programs';

export function AgentsView() {
  return (
    <Page name={t('Agents')} about={t('Prompts, models, tools and limits of the agents in this project.')}>
      <Agents />
    </Page>
  );
}

export function SourcesView() {
  return (
    <Page name={t('Data sources')} about={t('Databases that agents and consoles can query.')}>
      <DataSources />
    </Page>
  );
}

export function ToolsView() {
  const { part } = useSearch({ from: '/tools' });
  return (
    <Page
      name={t('Tools and MCP')}
      about={t('Servers and programs whose tools agents can call.')}
      tabs={
        <nav className="parts" aria-label={t('Tools sections')}>
          <Link to="/tools" search={{}} activeOptions={{ exact: true }}>
            {t('MCP servers')}
          </Link>
          <Link to="/tools" search={{ part: 'programs' }} activeOptions={{ exact: true }}>
            {t('Programs')}
          </Link>
        </nav>
      }
    >
      {part === 'programs' ? <Programs /> : <McpServers />}
    </Page>
  );
}

function Page({ name, about, tabs, children }: { name: string; about: string; tabs?: ReactNode; children: ReactNode }) {
  useTitle(name);
  const me = useMe();
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{name}</h1>
        <p className="about-page quiet">{about}</p>
      </div>
      {tabs}
      {isAdmin(me) ? children : <p className="note quiet">{t('You need admin access to change settings.')}</p>}
    </main>
  );
}

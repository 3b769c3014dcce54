// The settings for admins, one section at a time.
import { Link, useSearch } from '@tanstack/react-router';
import type { ComponentType } from 'react';
import { isAdmin, useMe } from '../api/me';
import { useTitle } from '../ui/title';
import { Agents } from './Agents';
import { DataSources } from './DataSources';
import { Keys } from './Keys';
import { McpServers } from './McpServers';
import { Members } from './Members';
import { Prices } from './Prices';
import { Programs } from './Programs';
import { Prompts } from './Prompts';
import type { PartName } from './parts';
import { Usage } from './Usage';

const PARTS: Record<PartName, [string, ComponentType]> = {
  agents: ['Agents', Agents],
  prompts: ['Prompts and routing', Prompts],
  servers: ['MCP servers', McpServers],
  programs: ['Programs', Programs],
  sources: ['Data sources', DataSources],
  members: ['Members', Members],
  keys: ['API keys', Keys],
  usage: ['Usage', Usage],
  prices: ['Model prices', Prices],
};

export function SettingsView() {
  const me = useMe();
  const { part = 'agents' } = useSearch({ from: '/settings' });
  const [, Part] = PARTS[part];
  useTitle(`${PARTS[part][0]}: Settings`);
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>Settings</h1>
        <nav className="parts" aria-label="Settings sections">
          {Object.entries(PARTS).map(([name, [label]]) => (
            <Link
              key={name}
              to="/settings"
              search={{ part: name as PartName }}
              aria-current={name === part ? 'page' : undefined}
            >
              {label}
            </Link>
          ))}
        </nav>
      </div>
      {isAdmin(me) ? <Part /> : <p className="note quiet">You need admin access to change settings.</p>}
    </main>
  );
}

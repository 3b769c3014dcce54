// Users besides the one of `rejoin dev`.
import { execFileSync } from 'node:child_process';
import { BINARY } from './dev.mjs';

/** A `dev` with the key of another user, of the same project or of another one: both are created if they don't exist. */
export function another(dev, handle, { project = dev.projectId, scopes = 'read,write', isForAll = false } = {}) {
  const options = ['--project', project, '--user', handle, '--create', '--scopes', scopes];
  // The key is for all projects of the user.
  if (isForAll) options.push('--all-projects');
  const made = execFileSync(BINARY, ['keys', 'create', ...options, '--database-url', dev.databaseUrl, '--json'], {
    encoding: 'utf8',
  });
  const { key, projectId, userId } = JSON.parse(made);
  return { ...dev, apiKey: key, projectId: projectId ?? project, userId };
}

// The tools that agents of the project can get, by their source. Tools that need a conversation, such as `ask_user`, are not listed by the API.
import { useQueries, useQuery } from '@tanstack/react-query';
import { api, apiText, type Schemas } from '../../api/http';
import { useMe } from '../../api/me';
import { t } from '../../ui/language';

type Server = Schemas['ServerBody'];

/** Hints about a tool, as the Model Context Protocol names them. */
export interface Annotations {
  readOnlyHint?: boolean | null;
  destructiveHint?: boolean | null;
  idempotentHint?: boolean | null;
  openWorldHint?: boolean | null;
}

export interface Tool {
  /** As agents know it. */
  name: string;
  description: string;
  annotations: Annotations | null;
  /** Of a server's tool: how it stands if it is not approved. */
  standing?: string;
}

export interface ToolGroup {
  source: string;
  tools: readonly Tool[];
}

/** The revision of the protocol that needs no handshake. */
const REVISION = '2026-07-28';
/** Maximum length of a tool's name; the workers shorten longer ones. */
const NAME_MAX_CHARS = 64;
/** The part of a long name that certainly stays. */
const SHORT_NAME_CHARS = 40;

interface Listed {
  result?: { tools: { name: string; description?: string; annotations?: Annotations | null }[] };
  error?: { message: string };
}

/** The server's tools, as it offers them to MCP clients. The agents' `ask_agent` is not a tool of agents. */
async function builtInTools(): Promise<Tool[]> {
  const text = await apiText('/mcp', {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': REVISION,
      'mcp-method': 'tools/list',
    },
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/list',
      params: {
        _meta: {
          'io.modelcontextprotocol/protocolVersion': REVISION,
          'io.modelcontextprotocol/clientInfo': { name: 'rejoin-web', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    },
  });
  // An event stream of one event, or plain JSON.
  const event = text.split('\n').find((line) => line.startsWith('data: {'));
  const { result, error } = JSON.parse(event?.slice('data: '.length) ?? text) as Listed;
  if (!result) throw new Error(error?.message ?? t('The tools could not be listed.'));
  return result.tools
    .filter(({ name }) => name !== 'ask_agent')
    .map(({ name, description = '', annotations = null }) => ({ name, description, annotations }));
}

/** A server's tool as agents know it; a glob, if its name is shortened. */
function nameOf(server: string, tool: string): string {
  const name = `${server}_${tool.replace(/[^A-Za-z0-9_-]/g, '_')}`;
  return name.length > NAME_MAX_CHARS ? `${name.slice(0, SHORT_NAME_CHARS)}*` : name;
}

function groupOf(server: Server): ToolGroup {
  const tools = (server.offered ?? []).map((tool) => {
    const { description = '', annotations = null } = tool.definition as {
      description?: string;
      annotations?: Annotations | null;
    };
    return {
      name: nameOf(server.name, tool.name),
      description,
      annotations,
      ...(tool.standing !== 'approved' && { standing: tool.standing }),
    };
  });
  return { source: t('MCP server {name}', { name: server.name }), tools };
}

export interface ToolCatalogue {
  groups: readonly ToolGroup[];
  isPending: boolean;
  /** Sources that could not be read, with the reasons. */
  errors: readonly (readonly [string, Error])[];
}

export function useToolCatalogue(): ToolCatalogue {
  const me = useMe();
  const path = `/api/admin/projects/${me.projectId}/mcp-servers`;
  const builtIn = useQuery({ queryKey: ['built-in tools'], queryFn: builtInTools });
  const servers = useQuery({ queryKey: ['servers'], queryFn: () => api<Schemas['Servers']>(path) });
  const details = useQueries({
    queries: (servers.data?.items ?? []).map(({ id }) => ({
      queryKey: ['server', id],
      queryFn: () => api<Server>(`${path}/${id}`),
    })),
  });
  const programs = useQuery({
    queryKey: ['programs'],
    queryFn: () => api<Schemas['RemoteWorkers']>('/api/workers'),
  });
  const ofPrograms = (programs.data?.items ?? []).map((program) => ({
    source: t('Program {name}', { name: program.name }),
    // `name@version`
    tools: program.tools.map((tool) => ({ name: tool.replace(/@[^@]*$/, ''), description: '', annotations: null })),
  }));
  const groups: ToolGroup[] = [
    { source: t('Built-in'), tools: builtIn.data ?? [] },
    ...details.flatMap(({ data }) => (data ? [groupOf(data)] : [])),
    ...ofPrograms,
  ];
  const readings = [
    [t('Built-in tools'), builtIn],
    [t('MCP servers'), servers],
    ...details.map((detail) => [t('MCP servers'), detail] as const),
    [t('Programs'), programs],
  ] as const;
  return {
    groups: groups.filter(({ tools }) => tools.length > 0),
    isPending: readings.some(([, reading]) => reading.isPending),
    errors: readings.flatMap(([source, { error }]) => (error ? [[source, error] as const] : [])),
  };
}

/** Whether a glob of a whitelist matches a name: `*`, `?`, `[…]` and `{…,…}`. An invalid one matches nothing. */
export function isMatch(glob: string, name: string): boolean {
  let depth = 0;
  const pattern = glob.replace(/\[!|\[[^\]]*\]|[*?{},.+^$()|\\]/g, (sign) => {
    if (sign === '*') return '.*';
    if (sign === '?') return '.';
    if (sign === '[!') return '[^';
    if (sign.startsWith('[')) return sign;
    if (sign === '{') {
      depth += 1;
      return '(?:';
    }
    if (sign === '}' && depth > 0) {
      depth -= 1;
      return ')';
    }
    if (sign === ',' && depth > 0) return '|';
    return `\\${sign}`;
  });
  try {
    return new RegExp(`^${pattern}$`).test(name);
  } catch {
    return false;
  }
}

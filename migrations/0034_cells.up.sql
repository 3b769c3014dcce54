-- Several databases, called cells: on which one a workspace lives, and how it moves (docs/operations/cells.md,
-- docs/decisions/0073-cells.md). Every cell has the whole schema. One database is the directory: it has identity (projects, users, members,
-- keys, sessions, tickets), these tables, and the workspaces that are placed nowhere else.
create schema cells;
grant usage on schema cells to rejoin_app, rejoin_gate, rejoin_worker;

-- Of the directory: numbers of changes, so that processes ask for the newer ones only.
create sequence cells.versions;

-- Of the directory: the other databases.
create table cells.cells (
    name       text primary key check (name ~ '^[a-z][a-z0-9-]{0,31}$' and name <> 'directory'),
    -- Where each process finds the URL, which is a secret: env:VARIABLE or file:/PATH.
    url_from   text not null check (url_from ~ '^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)$'),
    -- draining: workspaces leave it, and none is moved to it.
    state      text not null default 'open' check (state in ('open', 'draining')),
    created_at timestamptz not null default now()
);

-- Of the directory: workspaces that live on a cell, or have done so. Without a row: on the directory.
create table cells.placements (
    project_id uuid primary key references kb.projects (id) on delete cascade,
    -- Null: the directory.
    cell       text references cells.cells (name),
    -- held: it is being moved; nothing may be changed.
    state      text not null default 'placed' check (state in ('placed', 'held')),
    -- One more with each change of cell or state.
    epoch      bigint not null default 1,
    -- The last change of the row, or of what the cell mirrors: the project, its members and their names.
    version    bigint not null default nextval('cells.versions'),
    changed_at timestamptz not null default clock_timestamp()
);
create index placements_version on cells.placements (version);
-- Versions are taken before their commit: a process also reads what is new by its time.
create index placements_changed on cells.placements (changed_at);
create index placements_cell on cells.placements (cell);
grant select on cells.cells, cells.placements to rejoin_gate;

-- Of the directory: moves of workspaces, so that one that was interrupted continues.
create table cells.moves (
    id         uuid primary key,
    project_id uuid not null,
    -- Null: the directory.
    from_cell  text,
    to_cell    text,
    -- holding: the workspace is held, and its jobs end. copying: nothing changes it, and its rows are copied. copied: the new cell has
    -- committed them, and the move can't be undone. moved: requests go there. cleaned: the old rows are deleted. undone: it has stayed.
    phase      text not null default 'holding' check (phase in ('holding', 'copying', 'copied', 'moved', 'cleaned', 'undone')),
    -- Rows by table, once they are copied.
    copied     jsonb,
    -- Why it was undone.
    error      text,
    started_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
create unique index moves_open on cells.moves (project_id) where phase in ('holding', 'copying', 'copied');

-- Of each cell: workspaces that are leaving it, or have left it.
create table cells.holds (
    project_id uuid primary key,
    -- held: it may be read. moved: it lives elsewhere, and its rows here are old.
    state      text not null check (state in ('held', 'moved')),
    since      timestamptz not null default now()
);
-- Sweeps of many rows join it; those of few ask cells.is_held.
grant select on cells.holds to rejoin_worker;

-- Of each cell: the move by which a workspace came. Written with its rows, and so it shows whether they were committed.
create table cells.arrivals (
    project_id uuid primary key,
    move_id    uuid not null,
    arrived_at timestamptz not null default now()
);

-- Of each cell but the directory: which version of a workspace's identity it has.
create table cells.mirrored (
    project_id uuid primary key,
    version    bigint not null
);
grant select on cells.mirrored to rejoin_gate;

-- Begins a request's transaction on a cell: of a workspace that is held it changes nothing, and of one that has left it reads nothing. Both
-- errors mean: try again later.
create function cells.enter(p_project uuid) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_state text;
begin
    select h.state into v_state from cells.holds h where h.project_id = p_project;
    if v_state = 'held' then
        perform set_config('transaction_read_only', 'on', true);
    elsif v_state = 'moved' then
        raise exception 'the project % has moved to another database', p_project using errcode = 'object_not_in_prerequisite_state';
    end if;
end
$$;
revoke all on function cells.enter from public;
grant execute on function cells.enter to rejoin_app, rejoin_worker;

-- Whether a workspace is leaving, or has left: sweeps begin nothing for it.
create function cells.is_held(p_project uuid) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select exists (select from cells.holds h where h.project_id = p_project)
$$;
revoke all on function cells.is_held from public;
grant execute on function cells.is_held to rejoin_app, rejoin_worker;

-- Writes the identity of a workspace to its cell: the project, its members, and the names of users. Returns false if the cell has this
-- version or a newer one. Users stay: rows refer to those who have left.
create function cells.mirror(p_version bigint, p_project jsonb, p_users jsonb, p_members jsonb) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_project uuid := (p_project ->> 'id')::uuid;
begin
    if exists (select from cells.cells) then
        raise exception 'this database is the directory: its identity is not a copy' using errcode = 'insufficient_privilege';
    end if;
    insert into cells.mirrored as m (project_id, version) values (v_project, p_version)
    on conflict (project_id) do update set version = excluded.version where m.version < excluded.version;
    if not found then
        return false;
    end if;

    insert into kb.projects as p (id, name, created_at, runs_per_day, tokens_per_day, parallel_tasks)
    select n.id, n.name, n.created_at, n.runs_per_day, n.tokens_per_day, n.parallel_tasks
    from jsonb_to_record(p_project) n (id uuid, name text, created_at timestamptz, runs_per_day bigint, tokens_per_day bigint,
                                       parallel_tasks int)
    on conflict (id) do update
    set name = excluded.name, runs_per_day = excluded.runs_per_day, tokens_per_day = excluded.tokens_per_day,
        parallel_tasks = excluded.parallel_tasks;

    -- A handle that was given to another user meanwhile.
    update kb.users u set handle = u.id::text
    from jsonb_to_recordset(p_users) n (id uuid, handle text)
    where u.handle = n.handle and u.id <> n.id;
    insert into kb.users as u (id, handle, created_at)
    select n.id, n.handle, n.created_at
    from jsonb_to_recordset(p_users) n (id uuid, handle text, created_at timestamptz)
    order by n.id
    on conflict (id) do update set handle = excluded.handle where u.handle <> excluded.handle;

    delete from kb.project_members m
    where m.project_id = v_project
      and not exists (select from jsonb_to_recordset(p_members) n (user_id uuid) where n.user_id = m.user_id);
    insert into kb.project_members as m (project_id, user_id, created_at, role)
    select v_project, n.user_id, n.created_at, n.role
    from jsonb_to_recordset(p_members) n (user_id uuid, created_at timestamptz, role text)
    on conflict (project_id, user_id) do update set role = excluded.role where m.role <> excluded.role;
    return true;
end
$$;
revoke all on function cells.mirror from public;
-- As the role that finds out who calls: it may write users and members anyway.
grant execute on function cells.mirror to rejoin_gate;

-- What a cell mirrors has changed.
create function cells.note_project() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update cells.placements
    set version = nextval('cells.versions'), changed_at = clock_timestamp()
    where cell is not null and project_id = new.id;
    return null;
end
$$;
revoke all on function cells.note_project from public;
create trigger placed_projects after update on kb.projects for each row execute function cells.note_project();

create function cells.note_member() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update cells.placements
    set version = nextval('cells.versions'), changed_at = clock_timestamp()
    where cell is not null and project_id = case tg_op when 'DELETE' then old.project_id else new.project_id end;
    return null;
end
$$;
revoke all on function cells.note_member from public;
create trigger placed_members after insert or update or delete on kb.project_members
    for each row execute function cells.note_member();

create function cells.note_user() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update cells.placements
    set version = nextval('cells.versions'), changed_at = clock_timestamp()
    where cell is not null and project_id in (select m.project_id from kb.project_members m where m.user_id = new.id);
    return null;
end
$$;
revoke all on function cells.note_user from public;
create trigger placed_users after update of handle on kb.users
    for each row when (old.handle is distinct from new.handle) execute function cells.note_user();

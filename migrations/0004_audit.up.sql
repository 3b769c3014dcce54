-- Who changed what, as one chain: each entry holds the hash of the one before it, so that none can be changed, or taken out of the
-- middle, without breaking the chain behind it (docs/operations/audit.md, docs/decisions/0016-audit-chain.md).
create schema audit;

create table audit.entries (
    -- 1, 2, 3 and so on, without a gap.
    id         bigint primary key check (id > 0),
    -- When, by the database's clock.
    at         timestamptz not null,
    -- The project that it is about; null: none, or all. An entry stays when its project is deleted.
    project_id uuid,
    -- Who: `user:<id>`, or `operator` for anybody who has the database's URL.
    actor      text not null check (length(actor) between 1 and 200),
    -- The credential that was used: `key:<id>`, `token`; null: nothing but access to the database.
    credential text check (length(credential) between 1 and 200),
    -- What was done, such as `key.created`.
    action     text not null check (length(action) between 1 and 100),
    -- To what, such as `api_key:<id>`.
    target     text not null check (length(target) between 1 and 500),
    -- Details: names and ids, never values of secrets, prompts or messages.
    detail     jsonb not null check (octet_length(detail::text) <= 8192),
    -- The hash of the entry before; of the first one, 32 zero bytes.
    prev_hash  bytea not null check (octet_length(prev_hash) = 32),
    -- SHA-256 of all the other columns, as audit.append writes them down.
    hash       bytea not null check (octet_length(hash) = 32)
);
create index entries_project on audit.entries (project_id, id);

-- Nobody rewrites it, not even the owner of the table. (The owner can drop this trigger; the chain shows what was done then.)
create function audit.refuse() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'audit.entries only grows: % is refused', lower(tg_op) using errcode = 'insufficient_privilege';
end
$$;
create trigger only_grows before update or delete or truncate on audit.entries
    for each statement execute function audit.refuse();
-- Also where triggers are off for the session, as while a dump is loaded.
alter table audit.entries enable always trigger only_grows;

-- Adds an entry, in the transaction of the act that it records; the last statement there, since the next transaction that appends waits
-- for the end of this one. Returns the entry's number.
create function audit.append(
    p_project_id uuid,
    p_actor text,
    p_credential text,
    p_action text,
    p_target text,
    p_detail jsonb
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    -- "audit", in bytes: nobody else takes an advisory lock with this number.
    c_lock constant bigint := 418581342580;
    v_id   bigint;
    v_at   timestamptz;
    v_prev bytea;
    v_hash bytea;
begin
    -- A transaction that says for whom it is tells of that user, in that project.
    if p_project_id is distinct from coalesce(kb.current_project(), p_project_id)
       or p_actor is distinct from coalesce('user:' || kb.current_owner(), p_actor) then
        raise exception 'this transaction is for somebody else than %', p_actor using errcode = 'insufficient_privilege';
    end if;

    -- Who stops in the middle keeps all others waiting, but not for long.
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
    perform pg_advisory_xact_lock(c_lock);

    select e.id, e.hash into v_id, v_prev from audit.entries e order by e.id desc limit 1;
    v_id := coalesce(v_id, 0) + 1;
    v_prev := coalesce(v_prev, decode(repeat('00', 32), 'hex'));
    -- Not now(): whoever waited for the lock may have begun before the entry in front of it.
    v_at := clock_timestamp();
    -- A list in JSON, so that what belongs to one column can't be moved into the next one.
    v_hash := sha256(convert_to(
        jsonb_build_array(
            v_id,
            to_char(v_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            p_project_id,
            p_actor,
            p_credential,
            p_action,
            p_target,
            p_detail::text,
            encode(v_prev, 'hex')
        )::text,
        'UTF8'));
    insert into audit.entries (id, at, project_id, actor, credential, action, target, detail, prev_hash, hash)
    values (v_id, v_at, p_project_id, p_actor, p_credential, p_action, p_target, p_detail, v_prev, v_hash);
    return v_id;
end
$$;

revoke all on all functions in schema audit from public;
grant usage on schema audit to rejoin_app, rejoin_gate, rejoin_worker;
grant execute on function audit.append(uuid, text, text, text, text, jsonb) to rejoin_app, rejoin_gate, rejoin_worker;

-- Administrators of a project read what was done there; nobody but the owner of the table reads the rest.
grant select on audit.entries to rejoin_app;
alter table audit.entries enable row level security;
create policy app on audit.entries for select to rejoin_app using (project_id = kb.current_project());

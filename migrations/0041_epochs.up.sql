-- Epochs of the database (docs/decisions/0067-epochs.md). A log is append-only, unless the database itself goes back: it was restored to an earlier
-- moment, or a failover promoted a standby that lacked the last commits. Such a log may grow past a reader's cursor again, with other events. Readers
-- name the epoch in which they got their events, and a cursor of another history is recognized.

create table stream.epochs (
    -- A random name: an epoch whose row was lost with a restore never returns.
    epoch             uuid primary key default gen_random_uuid(),
    -- The order in which they began.
    nth               bigint not null unique generated always as identity,
    -- The server, as its `initdb` has named it; 0: the server does not show it, and there is one epoch.
    system_identifier bigint not null,
    -- PostgreSQL begins a new timeline whenever a server is promoted: after a failover, and at the end of a point-in-time recovery.
    timeline          bigint not null,
    -- Events created by then are those of the epoch before: the last commit that the promoted server has taken over. `-infinity`: unknown, because the
    -- server was started again since, or because it is another server.
    common_until      timestamptz not null,
    noted_at          timestamptz not null default now()
);

-- Returns the current epoch, and notes it if it has just begun.
create function stream.epoch() returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_system   bigint := 0;
    v_timeline bigint := 0;
    v_epoch    uuid;
begin
    begin
        select c.system_identifier into v_system from pg_control_system() c;
        -- The first eight digits of a segment's name.
        v_timeline := ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint;
    exception when insufficient_privilege or feature_not_supported or undefined_function then
        v_system := 0;
        v_timeline := 0;
    end;
    select e.epoch into v_epoch
    from (select * from stream.epochs order by nth desc limit 1) e
    where e.system_identifier = v_system and e.timeline = v_timeline;
    if found then
        return v_epoch;
    end if;
    lock table stream.epochs in share row exclusive mode;
    -- Another process may have noted it meanwhile.
    select e.epoch into v_epoch
    from (select * from stream.epochs order by nth desc limit 1) e
    where e.system_identifier = v_system and e.timeline = v_timeline;
    if not found then
        insert into stream.epochs (system_identifier, timeline, common_until)
        values (v_system, v_timeline, coalesce(pg_last_xact_replay_timestamp(), '-infinity'))
        returning epoch into v_epoch;
    end if;
    return v_epoch;
end
$$;

-- The roles of the product read the table; only the function writes.
revoke all on function stream.epoch() from public;
do $$
begin
    if exists (select from pg_roles where rolname = 'rejoin_app') then
        revoke insert, update, delete on stream.epochs from rejoin_app, rejoin_worker;
        grant execute on function stream.epoch() to rejoin_app, rejoin_worker;
    end if;
end $$;

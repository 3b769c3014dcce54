-- A project that moves to another database takes the epochs of its old one along (docs/decisions/0067-epochs.md): readers that name one of them have
-- the events that were copied, and go on with their cursors.

-- Of each cell: the epochs in which readers may have got events of a project before it came. Written with its rows.
create table cells.epochs (
    project_id   uuid not null,
    epoch        uuid not null,
    -- Events created by then are those that were copied. `infinity`: all, since the epoch had not ended when the project left.
    common_until timestamptz not null,
    -- The last epoch of this database that had begun when the project came: it is taken back by later ones only.
    nth          bigint not null,
    primary key (project_id, epoch)
);

-- Returns an epoch of another database, as a place in the order of this one's; no row if no project has brought it. Several projects may have: what
-- holds for all of them is returned.
create function cells.brought_epoch(p_epoch uuid, out nth bigint, out common_until timestamptz) returns setof record
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select min(e.nth), min(e.common_until) from cells.epochs e where e.epoch = p_epoch having count(*) > 0
$$;

revoke all on function cells.brought_epoch(uuid) from public;
do $$
begin
    if exists (select from pg_roles where rolname = 'rejoin_app') then
        grant execute on function cells.brought_epoch(uuid) to rejoin_app, rejoin_worker;
    end if;
end $$;

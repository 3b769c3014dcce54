-- Rows of several events, and where their compaction and retention stand.
alter table stream.events
    -- Null: the row is one event. Else it is the events first_seq … seq, of one kind and one tree of runs, their texts in `data`
    -- with a line end between them.
    add column first_seq bigint;
-- Nobody asks for events by their age: retention goes by the end of runs.
drop index stream.events_created;
-- Compaction and retention leave room that appends should find soon: at a twentieth of the table, not at a fifth.
alter table stream.events set (autovacuum_vacuum_scale_factor = 0.05);

-- One event a row: for people, and for programs that read the log without us.
create view stream.each_event as
    select e.log_id, coalesce(e.first_seq, e.seq) + line.nth - 1 as seq, e.run_id, e.type, line.data, e.created_at
    from stream.events e
    cross join lateral unnest(case when e.first_seq is null then array[e.data] else string_to_array(e.data, e'\n') end)
        with ordinality line(data, nth);

-- Compaction and retention take the runs in the order of their end. One row: whoever holds its lock is at work, alone in the fleet.
create table stream.upkeep (
    only_row      boolean primary key default true check (only_row),
    -- The newest run whose events were compacted: its end and id.
    compacted_at  timestamptz not null default 'epoch',
    compacted_run uuid not null default '00000000-0000-0000-0000-000000000000',
    -- The newest run whose events were removed, for its age.
    trimmed_at    timestamptz not null default 'epoch',
    trimmed_run   uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into stream.upkeep default values;
create index agent_runs_finished on kb.agent_runs (finished_at, id) where finished_at is not null and parent_run_id is null;

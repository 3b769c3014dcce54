-- The append-only log of each conversation (and of each run outside one).
create schema stream;

-- One row a log. Its row lock makes numbers gapless and ordered by commit, with any number of writers. The number of the newest event is
-- not in it: a counter would leave a dead row behind with every append, and while any transaction is open nothing removes them
-- (docs/decisions/0011-log-ends.md).
create table stream.logs (
    -- The conversation's id, or the run's where there is no conversation.
    log_id     uuid primary key,
    -- The oldest event that retention has kept.
    oldest_seq bigint not null default 1
) with (fillfactor = 50);

-- Events, one or several a row (docs/decisions/0010-event-rows.md). No index by age: retention goes by the end of runs.
create table stream.events (
    log_id     uuid not null,
    -- 1, 2, 3 … within the log, without a gap. Of a row of several events: the last one's.
    seq        bigint not null,
    -- The run whose readers see the event: the root of its tree. Null: only readers of the whole log.
    run_id     uuid,
    type       text not null,
    -- Exactly the JSON text that goes on the wire: written once, never encoded again.
    data       text not null,
    created_at timestamptz not null default now(),
    -- Null: the row is one event. Otherwise it is the events first_seq … seq, of one kind and one tree of runs, their texts in `data`
    -- with a line end between them.
    first_seq  bigint,
    primary key (log_id, seq)
-- Compaction and retention leave room that appends should find soon: at a twentieth of the table, not at a fifth.
) with (autovacuum_vacuum_scale_factor = 0.05);

-- One event a row: for people, and for other programs that read the log.
create view stream.each_event as
    select e.log_id, coalesce(e.first_seq, e.seq) + line.nth - 1 as seq, e.run_id, e.type, line.data, e.created_at
    from stream.events e
    cross join lateral unnest(case when e.first_seq is null then array[e.data] else string_to_array(e.data, e'\n') end)
        with ordinality line(data, nth);

-- The number of each log's newest event.
create view stream.log_ends as
    select l.log_id,
           l.oldest_seq,
           -- Retention moves oldest_seq past what it removes: without events, the next one has that number.
           coalesce((select e.seq from stream.events e
                     where e.log_id = l.log_id and e.seq >= l.oldest_seq
                     order by e.seq desc limit 1), l.oldest_seq - 1) as last_seq
    from stream.logs l;

-- Where compaction and retention stand: they take the runs in the order of their end. One row: the process that holds its lock is the only one
-- of the fleet at work.
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

-- Appends a few events to one log within the caller's transaction, and returns the number of the last one.
-- The log's row lock is held until that transaction ends. A log that is missing is an error.
create function stream.append(p_log_id uuid, p_run_id uuid, p_types text[], p_data text[]) returns bigint
language plpgsql as $$
declare
    v_last bigint;
begin
    perform from stream.logs where log_id = p_log_id for no key update;
    if not found then
        raise foreign_key_violation using message = format('there is no log %s', p_log_id);
    end if;
    -- A statement of its own after the lock: it sees what the lock's last holder has committed.
    select last_seq into v_last from stream.log_ends where log_id = p_log_id;
    insert into stream.events (log_id, seq, run_id, type, data)
    select p_log_id, v_last + i, p_run_id, t, d
    from unnest(p_types, p_data) with ordinality e(t, d, i);
    return v_last + cardinality(p_types);
end
$$;

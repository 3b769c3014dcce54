-- The append-only log of each conversation (and of each run outside one).
create schema stream;

create table stream.logs (
    -- The conversation's id, or the run's where there is no conversation.
    log_id     uuid primary key,
    -- The number of the newest event. Its row lock makes seq gapless and commit-ordered, with any number of writers.
    last_seq   bigint not null default 0,
    -- The oldest event that retention has kept.
    oldest_seq bigint not null default 1
) with (fillfactor = 50);

create table stream.events (
    log_id     uuid not null,
    -- 1, 2, 3 … within the log, without a gap.
    seq        bigint not null,
    -- The run whose readers see the event: the root of its tree. Null: only readers of the whole log.
    run_id     uuid,
    type       text not null,
    -- Exactly the JSON text that goes on the wire: written once, never encoded again.
    data       text not null,
    created_at timestamptz not null default now(),
    primary key (log_id, seq)
);
-- Retention walks the log from its old end.
create index events_created on stream.events using brin (created_at);

-- Appends a few events to one log within the caller's transaction, and returns the number of the last one.
-- The log's row lock is held until that transaction ends. A log that is missing is an error.
create function stream.append(p_log_id uuid, p_run_id uuid, p_types text[], p_data text[]) returns bigint
language plpgsql as $$
declare
    v_last bigint;
begin
    update stream.logs set last_seq = last_seq + cardinality(p_types) where log_id = p_log_id returning last_seq into v_last;
    if not found then
        raise foreign_key_violation using message = format('there is no log %s', p_log_id);
    end if;
    insert into stream.events (log_id, seq, run_id, type, data)
    select p_log_id, v_last - cardinality(p_types) + i, p_run_id, t, d
    from unnest(p_types, p_data) with ordinality e(t, d, i);
    return v_last;
end
$$;

-- A flush whose logs end where its writer knows that they end is written with the numbers that the writer has counted, without numbering its
-- rows here: a quarter of the time of a large flush (docs/decisions/0059-flush-as-a-function.md).

-- As before, and with the numbers that the writer has counted: of each row its log, the number of its last event if every stream's log ends at
-- p_seen and all of them are written, and p_flush in the first row of each stream (one is enough to find the flush again). Null: the rows are
-- numbered here.
create function stream.write(
    p_flush    bigint,
    p_logs     uuid[],
    p_runs     uuid[],
    p_attempts int[],
    p_known    bigint[],
    p_seen     bigint[],
    p_streams  int[],
    p_counts   int[],
    p_readers  uuid[],
    p_types    text[],
    p_data     text[],
    p_row_logs uuid[],
    p_seqs     bigint[],
    p_marks    bigint[]
) returns table (nth int, log_end bigint, is_there boolean)
language plpgsql as $$
declare
    -- By stream. Access by position: joins of arrays, of whose length a plan knows nothing, could become nested loops.
    v_held  boolean[];
    -- -1: the stream is not held.
    v_ends  bigint[];
    v_there boolean[];
begin
    -- The fence. KEY SHARE: `attempt` is part of a unique key of the job, so a takeover (attempt + 1) and a write in progress exclude each
    -- other, and a heartbeat does not wait. Exactly running jobs have a lease; asked for their state, a server without statistics goes
    -- through the index of all running jobs for each run. Locks leave no dead rows, unlike a counter. Logs in order of id, against deadlocks.
    select array_agg(locked.held is not null order by wanted.nth) into v_held from (
        select w.log_id, w.run_id, w.attempt, w.nth
        from unnest(p_logs, p_runs, p_attempts) with ordinality w(log_id, run_id, attempt, nth)
        order by w.log_id
        offset 0) wanted
    left join lateral (
        select true as held from queue.jobs j
        where j.run_id = wanted.run_id and j.attempt = wanted.attempt and j.lease_until is not null
        for key share) live on true
    left join lateral (
        select true as held from stream.logs l where live.held and l.log_id = wanted.log_id
        for no key update) locked on true;
    -- A separate statement after the locks: it sees what their last holders have committed. A log that ends before what the attempt
    -- knows was rolled back: what would be appended follows other events.
    select array_agg(case when s.log_end >= s.seen then s.log_end else -1 end order by s.nth),
           array_agg(exists (select from stream.events v
                             where s.log_end > s.known and v.log_id = s.log_id and v.seq > s.known and v.flush_id = p_flush)
                     order by s.nth)
        into v_ends, v_there from (
            select w.log_id, w.known, w.seen, w.nth,
                   case when v_held[w.nth] then (select e.last_seq from stream.log_ends e where e.log_id = w.log_id) end as log_end
            from unnest(p_logs, p_known, p_seen) with ordinality w(log_id, known, seen, nth)
            offset 0) s;
    if v_ends = p_seen and not true = any (v_there) and p_seqs is not null then
        insert into stream.events (log_id, first_seq, seq, run_id, type, data, flush_id)
        select r.log_id, case when r.events > 1 then r.seq - r.events + 1 end, r.seq, r.run_id, r.type, r.data, r.mark
        from unnest(p_row_logs, p_counts, p_seqs, p_readers, p_types, p_data, p_marks) r(log_id, events, seq, run_id, type, data, mark);
    else
        insert into stream.events (log_id, first_seq, seq, run_id, type, data, flush_id)
        select r.log_id, case when r.events > 1 then r.seq - r.events + 1 end, r.seq, r.run_id, r.type, r.data, p_flush from (
            select p_logs[r.stream] as log_id,
                   v_ends[r.stream] + sum(r.events) over (partition by p_logs[r.stream] order by r.place) as seq,
                   r.events, r.run_id, r.type, r.data
            from unnest(p_streams, p_counts, p_readers, p_types, p_data) with ordinality r(stream, events, run_id, type, data, place)
            where v_ends[r.stream] >= 0 and not v_there[r.stream]) r;
    end if;
    return query
        select s.nth::int, s.log_end, s.is_there from unnest(v_ends, v_there) with ordinality s(log_end, is_there, nth)
        where s.log_end >= 0;
end
$$;

-- For workers of the version before.
create or replace function stream.write(
    p_flush    bigint,
    p_logs     uuid[],
    p_runs     uuid[],
    p_attempts int[],
    p_known    bigint[],
    p_seen     bigint[],
    p_streams  int[],
    p_counts   int[],
    p_readers  uuid[],
    p_types    text[],
    p_data     text[]
) returns table (nth int, log_end bigint, is_there boolean)
language sql as $$
    select w.nth, w.log_end, w.is_there
    from stream.write(p_flush, p_logs, p_runs, p_attempts, p_known, p_seen, p_streams, p_counts, p_readers, p_types, p_data, null, null, null) w
$$;

-- Text that the function of an agent writes while it works (docs/reference/worker-protocol.md): tokens of its run, before the function ends.

alter table kb.remote_calls
    -- The call executes the turn of an agent: the fields of its run's events that follow their type, as JSON. Null: any other call, which
    -- writes no text.
    add answers         text,
    -- The step that writes, its attempt, and the number in the log before its first event. Null: none does.
    add writing_step    int,
    add writing_attempt int,
    add writing_after   bigint;

-- What readers have: a row for each `token` of a program that no `reset` has discarded.
create table kb.remote_texts (
    call_id    uuid not null references kb.remote_calls (id) on delete cascade,
    step       int not null,
    -- Order within the step, from 1.
    piece      int not null,
    project_id uuid not null,
    -- Of its event.
    seq        bigint not null,
    text       text not null,
    primary key (call_id, step, piece)
);
-- Both roles write by the functions below.
grant select on kb.remote_texts to rejoin_app;
grant select on kb.remote_texts to rejoin_worker;
alter table kb.remote_texts enable row level security;
create policy app on kb.remote_texts to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.remote_texts to rejoin_worker using (true);

-- Discards what the step has written that writes now. The caller has locked the call.
create function kb.discard_remote_text(p_call kb.remote_calls, p_reason text) returns void
language plpgsql as $$
begin
    perform stream.append(r.log_id, r.root_run_id, array['reset'],
                          array[format('{"type":"reset","discardAfter":%s,"attempt":%s,"reason":%s,%s', p_call.writing_after, r.attempt,
                                       to_json(p_reason), substr(p_call.answers, 2))])
    from kb.agent_runs r where r.id = p_call.run_id;
    delete from kb.remote_texts t where t.call_id = p_call.id and t.step = p_call.writing_step;
    update kb.remote_calls c set writing_step = null, writing_attempt = null, writing_after = null where c.id = p_call.id;
end
$$;

-- Publishes a piece of text that a step has written. Event: the `token`, as JSON. Outcomes: `written`, also for a repeated request; `stale`, if
-- the attempt does not have the call, or it is not an agent's turn; `other_step`, if another step writes; `ended`, if the step has ended;
-- `missing`, if an earlier piece is missing. Like kb.end_remote_call, it acts for any run of its project.
create function kb.write_remote_text(p_call uuid, p_attempt int, p_step int, p_piece int, p_text text, p_event text)
returns table (outcome text, log_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_call kb.remote_calls := kb.lock_remote_call(p_call);
    v_run  record;
    v_seq  bigint;
begin
    if v_call.id is null then
        return;
    end if;
    select r.log_id, r.root_run_id, r.state into v_run from kb.agent_runs r where r.id = v_call.run_id;
    if v_call.answers is null or not kb.has_remote_call(v_call, p_attempt) or v_run.state is distinct from 'waiting' then
        return query select 'stale', null::uuid;
        return;
    end if;
    if v_call.writing_attempt <> p_attempt then
        perform kb.discard_remote_text(v_call, 'the program that wrote it was lost');
        v_call.writing_step := null;
    end if;
    if exists (select from kb.remote_texts t where t.call_id = p_call and t.step = p_step and t.piece = p_piece) then
        return query select 'written', v_run.log_id;
    elsif v_call.writing_step <> p_step then
        return query select 'other_step', null::uuid;
    elsif exists (select from kb.remote_steps s where s.call_id = p_call and s.number = p_step and (s.kind <> 'function' or s.status <> 'begun')) then
        return query select 'ended', null::uuid;
    elsif p_piece > 1 and not exists (select from kb.remote_texts t where t.call_id = p_call and t.step = p_step and t.piece = p_piece - 1) then
        return query select 'missing', null::uuid;
    else
        v_seq := stream.append(v_run.log_id, v_run.root_run_id, array['token'], array[p_event]);
        insert into kb.remote_texts (call_id, step, piece, project_id, seq, text)
        values (p_call, p_step, p_piece, v_call.project_id, v_seq, p_text);
        if v_call.writing_step is null then
            update kb.remote_calls c set writing_step = p_step, writing_attempt = p_attempt, writing_after = v_seq - 1 where c.id = p_call;
        end if;
        return query select 'written', v_run.log_id;
    end if;
end
$$;
revoke all on function kb.write_remote_text from public;
grant execute on function kb.write_remote_text to rejoin_app;

-- A step has ended, or all have (null): what it has written stays if it has completed, and is discarded otherwise.
create function kb.settle_remote_text(p_call uuid, p_attempt int, p_step int, p_is_complete boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_call kb.remote_calls := kb.lock_remote_call(p_call);
begin
    if v_call.writing_step is null or not kb.has_remote_call(v_call, p_attempt) then
        return;
    end if;
    if v_call.writing_attempt <> p_attempt then
        perform kb.discard_remote_text(v_call, 'the program that wrote it was lost');
    elsif v_call.writing_step = p_step and p_is_complete then
        update kb.remote_calls c set writing_step = null, writing_attempt = null, writing_after = null where c.id = p_call;
    elsif p_step is null or v_call.writing_step = p_step then
        perform kb.discard_remote_text(v_call, 'the step that wrote it has failed');
    end if;
end
$$;
revoke all on function kb.settle_remote_text from public;
grant execute on function kb.settle_remote_text to rejoin_app;

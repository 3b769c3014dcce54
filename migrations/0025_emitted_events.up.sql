-- Events that users' programs emit while they work (docs/reference/worker-protocol.md#events): `custom` events of the run, numbered with the
-- texts of their step. A row of kb.remote_texts whose text is empty is such an event; the step 0 is none: the event was emitted outside of steps.
--
-- What the step of an agent's turn has emitted is discarded with its text. Other calls write no text, and other calls of their run write to the
-- log meanwhile, so that no `reset` may discard it: what they have emitted stays, and an attempt that emits it again publishes nothing.

-- Publishes a piece that a program sends while it works, as kb.write_remote_text, which a later release drops. Type and event: `token` and the
-- text, or `custom` and an empty text; the event as JSON. Outcomes: those of kb.write_remote_text; a call that is not an agent's turn has no
-- `token` (`stale`), and several of its steps may emit at the same time.
create function kb.write_remote_piece(
    p_call    uuid,
    p_attempt int,
    p_step    int,
    p_piece   int,
    p_text    text,
    p_type    text,
    p_event   text
) returns table (outcome text, log_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_call    kb.remote_calls := kb.lock_remote_call(p_call);
    v_is_turn boolean := v_call.answers is not null;
    v_run     record;
    v_seq     bigint;
begin
    if v_call.id is null then
        return;
    end if;
    select r.log_id, r.root_run_id, r.state into v_run from kb.agent_runs r where r.id = v_call.run_id;
    if not kb.has_remote_call(v_call, p_attempt)
       or p_type = 'token' and not v_is_turn
       -- The run of another call may be held (running), or be resumed for a call beside it.
       or coalesce(v_run.state, '') <> all (case when v_is_turn then array['waiting'] else array['queued', 'running', 'waiting'] end) then
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
        v_seq := stream.append(v_run.log_id, v_run.root_run_id, array[p_type], array[p_event]);
        insert into kb.remote_texts (call_id, step, piece, project_id, seq, text)
        values (p_call, p_step, p_piece, v_call.project_id, v_seq, p_text);
        if v_is_turn and p_step > 0 and v_call.writing_step is null then
            update kb.remote_calls c set writing_step = p_step, writing_attempt = p_attempt, writing_after = v_seq - 1 where c.id = p_call;
        end if;
        if v_run.state = 'running' then
            -- If its worker is lost, the `reset` of the next one discards what follows: the model's step is recorded, so the event is the newest
            -- that must stay.
            update kb.agent_runs r set safe_seq = v_seq where r.id = v_call.run_id;
        end if;
        return query select 'written', v_run.log_id;
    end if;
end
$$;
revoke all on function kb.write_remote_piece from public;
grant execute on function kb.write_remote_piece to rejoin_app;

-- Returns the run of a call of the caller's project, or no row if it has none. The caller's key may not see the run, and publishes its events.
create function kb.run_of_remote_call(p_call uuid) returns setof kb.agent_runs
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select r.* from kb.remote_calls c join kb.agent_runs r on r.id = c.run_id
    where c.id = p_call
      and (c.project_id = kb.current_project() or current_setting('role', true) is distinct from 'rejoin_app')
$$;
revoke all on function kb.run_of_remote_call from public;
grant execute on function kb.run_of_remote_call to rejoin_app;

drop function kb.finish_run(uuid, int, uuid, uuid, bigint, text, text, uuid, jsonb, uuid, text, jsonb, jsonb, int, text[], text[], text, text, text, text, text, jsonb);
drop function kb.end_run(uuid, int, text, bigint, uuid, text, text, text, jsonb);
drop function kb.end_tool_call(uuid, int, int, uuid, uuid, bigint, uuid, text, jsonb, text, int, jsonb, int, uuid, jsonb, text[], text[], jsonb, uuid);
drop function kb.start_tool_call(uuid, int, uuid, uuid, bigint, uuid, text[], text[], boolean);
drop function kb.record_step(uuid, int, int, uuid, uuid, bigint, int, uuid[], text[], jsonb[], uuid[], text[], text[], jsonb[], text[], text[], jsonb, bigint, double precision, bigint[]);
drop function kb.start_run(uuid, int, uuid, uuid, bigint, text, uuid[], text[], jsonb[], text[], text[], int, uuid, jsonb, text, text, jsonb);
drop function kb.post_message(uuid, uuid, uuid, uuid, text, jsonb, text, uuid, uuid, jsonb, text, text, int, text);
drop function kb.set_context(uuid, jsonb);
drop function kb.append_run_messages(uuid, uuid[], text[], jsonb[], int);

drop function stream.lock(uuid);
drop function queue.fence(uuid, int, int);

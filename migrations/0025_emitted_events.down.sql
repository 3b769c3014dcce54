drop function kb.run_of_remote_call(uuid);
drop function kb.write_remote_piece(uuid, int, int, int, text, text, text);

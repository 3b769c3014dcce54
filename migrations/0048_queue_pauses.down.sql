drop function queue.set_paused(text, boolean);
drop function queue.is_of_one_project();

drop function kb.run_times(int, int);

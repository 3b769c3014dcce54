drop table stream.hint_keys;

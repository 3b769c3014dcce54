-- Loses the languages of projects; the words of messages are made again.
drop function kb.search_messages;
drop function kb.index_message_backlog;
drop trigger words on kb.chat_messages;
drop table kb.message_words_backlog, kb.message_words, kb.search_settings;
drop function kb.reindex_messages;
drop function kb.index_message;
drop function kb.add_message_words;
drop function kb.words_of_message;
drop function kb.spaced;
drop function kb.search_query;
drop function kb.owner_lexeme;
drop function kb.search_config;

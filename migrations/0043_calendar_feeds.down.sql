drop table kb.calendar_feeds;

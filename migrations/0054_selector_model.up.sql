-- The model that says which agent a task gets, where rules and words leave several that fit alike; null: none is asked.
alter table kb.routing add column selector_model text;

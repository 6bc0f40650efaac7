"""In: facts about an installation. Out: findings, each with a cause and a fix. Pure."""

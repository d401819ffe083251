package httpapi

// turns lists what became of each message.
func (s *Server) turns(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	if err := c.query().check(); err != nil {
		return err
	}
	list, err := c.client.Turns(c.r.Context(), id)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"turns": list})
}

// timeline says how a turn spent its time.
func (s *Server) timeline(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	line, err := c.client.Timeline(c.r.Context(), id, c.path("turn"))
	if err != nil {
		return err
	}
	return c.answer(line)
}

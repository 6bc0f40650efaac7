"""Pure: who holds which vertices, by what each GPU and link can carry."""

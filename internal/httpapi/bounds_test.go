package httpapi_test

import "testing"

func TestUsersGiveNoOrders(t *testing.T) {}

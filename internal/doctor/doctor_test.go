package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHowOldTheNewsOfWorkersIs(t *testing.T) {
	assert.Empty(t, heard(1, 10*time.Second))
	assert.Equal(t, ", last heard of 40 s ago: idle, or ended", heard(1, 40*time.Second))
	assert.Equal(t, ", last heard of any of them 74 s ago: idle, or ended", heard(2, 74*time.Second))
}
